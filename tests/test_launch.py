"""The files of examples/launch: commands run with stand-ins for the scheduler, and read by torchrun's parser."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

STAND_IN = """#!/bin/bash
python3 -c 'import json, sys; print(json.dumps(sys.argv[1:]))' "$@"
"""


@pytest.fixture(scope="module")
def launch(root: Path) -> Path:
    return root / "examples" / "launch"


@pytest.fixture(scope="module")
def objects(launch: Path) -> dict[str, Any]:
    """Return the manifest's objects by kind."""
    yaml = pytest.importorskip("yaml")
    documents = list(yaml.safe_load_all((launch / "kubernetes.yaml").read_text()))
    assert [document["kind"] for document in documents] == ["Service", "Job"]
    return {document["kind"]: document for document in documents}


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
    run = pytest.importorskip("torch.distributed.run")
    parsed = run.parse_args(argv)
    assert parsed.module and parsed.training_script == "etude.cli" and parsed.training_script_args[0] == "train"
    assert parsed.shutdown_timeout == 3600
    return (
        int(parsed.nnodes),
        int(parsed.nproc_per_node),
        str(parsed.node_rank),
        parsed.master_addr,
        parsed.master_port,
    )


def test_kubernetes_objects_are_wired_to_each_other(objects: dict[str, Any]) -> None:
    service, job = objects["Service"], objects["Job"]
    name, spec = job["metadata"]["name"], job["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    variables = {variable["name"]: variable["value"] for variable in container["env"]}
    assert service["spec"]["clusterIP"] == "None" and service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": name}  # the label that a Job gives its pods
    assert pod["subdomain"] == service["metadata"]["name"]
    assert variables["MASTER"] == f"{name}-0.{service['metadata']['name']}"  # the first pod's host name
    assert spec["completionMode"] == "Indexed"
    assert int(variables["NNODES"]) == spec["completions"] == spec["parallelism"]
    assert variables["NPROC"] == container["resources"]["limits"]["nvidia.com/gpu"]
    ports = {container["ports"][0]["containerPort"], service["spec"]["ports"][0]["port"]}
    assert ports == {29500} and "--master-port 29500" in container["args"][0]
    mounts = {mount["name"] for mount in container["volumeMounts"]}
    assert mounts == {volume["name"] for volume in pod["volumes"]}
    assert pod["restartPolicy"] == "Never" and spec["backoffLimit"] == 0


def test_kubernetes_schemas_accept_the_objects(objects: dict[str, Any]) -> None:
    validate = pytest.importorskip("kubernetes_validate")
    for document in objects.values():
        validate.validate(document, "1.31", strict=True)


@pytest.mark.parametrize("index", ["0", "1"])
def test_each_pod_starts_torchrun_with_its_rank(objects: dict[str, Any], torchrun: Path, index: str) -> None:
    (container,) = objects["Job"]["spec"]["template"]["spec"]["containers"]
    variables = {variable["name"]: variable["value"] for variable in container["env"]}
    command = [*container["command"], *container["args"]]
    (argv,) = arguments(command, torchrun, JOB_COMPLETION_INDEX=index, **variables)
    assert read(argv) == (2, 8, index, "etude-train-0.etude-train", 29500)


def test_slurm_starts_one_torchrun_for_each_node(launch: Path, torchrun: Path) -> None:
    stand_ins = {
        "scontrol": '#!/bin/bash\n[ "$*" = "show hostnames n[01-02]" ] && printf "n01\\nn02\\n"\n',
        "srun": '#!/bin/bash\nshift\nfor SLURM_NODEID in 0 1; do SLURM_NODEID=$SLURM_NODEID "$@"; done\n',
    }
    for name, text in stand_ins.items():
        (torchrun / name).write_text(text)
        (torchrun / name).chmod(0o755)
    variables = {"SLURM_JOB_NODELIST": "n[01-02]", "SLURM_NNODES": "2", "SLURM_GPUS_ON_NODE": "8"}
    command = ["bash", str(launch / "slurm.sbatch"), "a recipe.toml", "-o", "out=/shared/run"]
    started = arguments(command, torchrun, **variables)
    assert [read(argv) for argv in started] == [(2, 8, rank, "n01", 29500) for rank in ("0", "1")]
    assert all(argv[-4:] == ["train", "a recipe.toml", "-o", "out=/shared/run"] for argv in started)


def test_sagemaker_starts_torchrun_with_the_variables_of_its_containers(launch: Path, torchrun: Path) -> None:
    (torchrun / "pip").write_text("#!/bin/bash\n")
    (torchrun / "pip").chmod(0o755)
    variables = {
        "SM_HOST_COUNT": "2",
        "SM_NUM_GPUS": "8",
        "SM_CURRENT_HOST_RANK": "1",
        "SM_MASTER_ADDR": "algo-1",
        "SM_MODEL_DIR": "/opt/ml/model",
    }
    (argv,) = arguments(["bash", str(launch / "sagemaker.sh")], torchrun, **variables)
    assert read(argv) == (2, 8, "1", "algo-1", 29500)
    assert argv[-3:] == ["recipe.toml", "-o", "out=/opt/ml/model/run"]


def test_modal_starts_torchrun_with_its_rank(launch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("modal")
    monkeypatch.syspath_prepend(launch)
    import modal_train

    assert read(modal_train.command(1, ["fd00::1", "fd00::2"])[1:]) == (2, 8, "1", "fd00::1", 29500)


def test_sagemaker_sdk_has_the_arguments_of_the_job(launch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job itself is not constructed, because the SDK then asks AWS for the role."""
    pytest.importorskip("sagemaker.train")
    monkeypatch.syspath_prepend(launch)
    import sagemaker_train

    job = sagemaker_train.job(str(launch), "arn:aws:iam::123456789012:role/train", "image:1")
    assert job.keys() <= sagemaker_train.ModelTrainer.model_fields.keys()
    assert job["compute"].instance_count == 2 and job["source_code"].command == "bash sagemaker.sh"
