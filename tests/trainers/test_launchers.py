"""The files of examples/launch: commands run with stand-ins for the scheduler, and read by torchrun's parser."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from helpers.launch_files import kubernetes_objects, launch_folder
from torch.distributed.run import parse_args

STAND_IN = """#!/bin/bash
python3 -c 'import json, sys; print(json.dumps(sys.argv[1:]))' "$@"
"""


@pytest.fixture
def torchrun(tmp_path: Path) -> Path:
    """Return a folder with a torchrun that prints its arguments."""
    (tmp_path / "torchrun").write_text(STAND_IN)
    (tmp_path / "torchrun").chmod(0o755)
    return tmp_path


def arguments(command: list[str], commands: Path, **variables: str) -> list[list[str]]:
    """Run a command with the stand-ins first on PATH, and return the arguments of each torchrun."""
    environment = {"PATH": f"{commands}:{os.environ['PATH']}", **variables}
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in output.stdout.splitlines()]


def read(argv: list[str]) -> tuple[int, int, str, str, int]:
    """Return nodes, processes of a node, rank, first node and port, as torchrun's own parser reads them."""
    parsed = parse_args(argv)
    assert parsed.module and parsed.training_script == "etude.cli" and parsed.training_script_args[0] == "train"
    assert parsed.shutdown_timeout == 3600
    return (
        int(parsed.nnodes),
        int(parsed.nproc_per_node),
        str(parsed.node_rank),
        parsed.master_addr,
        parsed.master_port,
    )


@pytest.mark.parametrize("index", ["0", "1"])
def test_each_pod_starts_torchrun_with_its_rank(root: Path, torchrun: Path, index: str) -> None:
    (container,) = kubernetes_objects(root)["Job"]["spec"]["template"]["spec"]["containers"]
    variables = {variable["name"]: variable["value"] for variable in container["env"]}
    command = [*container["command"], *container["args"]]
    (argv,) = arguments(command, torchrun, JOB_COMPLETION_INDEX=index, **variables)
    assert read(argv) == (2, 8, index, "etude-train-0.etude-train", 29500)


def test_slurm_starts_one_torchrun_for_each_node(root: Path, torchrun: Path) -> None:
    stand_ins = {
        "scontrol": '#!/bin/bash\n[ "$*" = "show hostnames n[01-02]" ] && printf "n01\\nn02\\n"\n',
        "srun": '#!/bin/bash\nshift\nfor SLURM_NODEID in 0 1; do SLURM_NODEID=$SLURM_NODEID "$@"; done\n',
    }
    for name, text in stand_ins.items():
        (torchrun / name).write_text(text)
        (torchrun / name).chmod(0o755)
    variables = {"SLURM_JOB_NODELIST": "n[01-02]", "SLURM_NNODES": "2", "SLURM_GPUS_ON_NODE": "8"}
    command = ["bash", str(launch_folder(root) / "slurm.sbatch"), "a recipe.toml", "-o", "out=/shared/run"]
    started = arguments(command, torchrun, **variables)
    assert [read(argv) for argv in started] == [(2, 8, rank, "n01", 29500) for rank in ("0", "1")]
    assert all(argv[-4:] == ["train", "a recipe.toml", "-o", "out=/shared/run"] for argv in started)


def test_sagemaker_starts_torchrun_with_the_variables_of_its_containers(root: Path, torchrun: Path) -> None:
    (torchrun / "pip").write_text("#!/bin/bash\n")
    (torchrun / "pip").chmod(0o755)
    variables = {
        "SM_HOST_COUNT": "2",
        "SM_NUM_GPUS": "8",
        "SM_CURRENT_HOST_RANK": "1",
        "SM_MASTER_ADDR": "algo-1",
        "SM_MODEL_DIR": "/opt/ml/model",
    }
    (argv,) = arguments(["bash", str(launch_folder(root) / "sagemaker.sh")], torchrun, **variables)
    assert read(argv) == (2, 8, "1", "algo-1", 29500)
    assert argv[-3:] == ["recipe.toml", "-o", "out=/opt/ml/model/run"]


def test_modal_starts_torchrun_with_its_rank(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("modal")
    monkeypatch.syspath_prepend(launch_folder(root))
    import modal_train

    assert read(modal_train.command(1, ["fd00::1", "fd00::2"])[1:]) == (2, 8, "1", "fd00::1", 29500)


def test_sagemaker_sdk_has_the_arguments_of_the_job(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job itself is not constructed, because the SDK then asks AWS for the role."""
    pytest.importorskip("sagemaker.train")
    monkeypatch.syspath_prepend(launch_folder(root))
    import sagemaker_train

    job = sagemaker_train.job(str(launch_folder(root)), "arn:aws:iam::123456789012:role/train", "image:1")
    assert job.keys() <= sagemaker_train.ModelTrainer.model_fields.keys()
    assert job["compute"].instance_count == 2 and job["source_code"].command == "bash sagemaker.sh"
