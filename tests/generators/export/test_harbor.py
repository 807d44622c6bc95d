"""Harbor task folders: their files, their layers, and the grade that their own script gives in a sandbox."""

from __future__ import annotations

import asyncio
import io
import json
import os
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest

from etude.environments.sandbox import open_sandbox
from etude.environments.snapshots import Snapshot
from etude.environments.tasks.task_set import write_tasks
from etude.errors import ExportError
from etude.generators.export import export
from etude.models import Task

BASE = {"base_image": "base:1"}
SOURCE = "src/scales/notes.py"
FORGE = "import os\nos._exit(0)\n"


@pytest.fixture(scope="module")
def task_folder(folder: Path, task: Task, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out")
    report = export(folder, "harbor", out, options=BASE)
    assert (report.rows, report.files) == (1, [str(out / "harbor")])
    return out / "harbor" / task.task_id


def names_in(path: Path) -> set[str]:
    with tarfile.open(path) as tar:
        return {member.name.removeprefix("./") for member in tar if member.isfile()}


def test_a_folder_has_the_files_that_harbor_reads(task_folder: Path, task: Task) -> None:
    files = {path.relative_to(task_folder).as_posix() for path in task_folder.rglob("*") if path.is_file()}
    layers = {f"environment/{name}.tar.gz" for name in ("env", "python", "workspace")}
    tests = {f"tests/{name}" for name in ("test.sh", "grade.py", "job.json", "tree.tar.gz")}
    assert files == {
        "instruction.md",
        "task.toml",
        "environment/Dockerfile",
        "solution/solve.sh",
        *layers,
        *tests,
    }
    assert all(os.access(task_folder / name, os.X_OK) for name in ("solution/solve.sh", "tests/test.sh"))
    config = tomllib.loads((task_folder / "task.toml").read_text("utf-8"))
    assert config["task"]["name"] == f"etude/{task.task_id}" and config["metadata"]["task_id"] == task.task_id
    assert config["environment"]["network_mode"] == "no-network" and config["environment"]["workdir"] == "/testbed"
    assert config["verifier"]["environment_mode"] == "separate"
    assert "find 'src/scales' " in config["verifier"]["collect"][0]["command"]
    assert (task_folder / "environment" / "Dockerfile").read_text().startswith("FROM base:1\n")


def test_the_agent_gets_no_secret(task_folder: Path, task: Task) -> None:
    workspace = names_in(task_folder / "environment" / "workspace.tar.gz")
    assert f"testbed/{SOURCE}" in workspace and "testbed/.git/HEAD" in workspace
    assert "testbed/tests/test_notes.py" not in workspace
    assert "tests/test_notes.py" in names_in(task_folder / "tests" / "tree.tar.gz")
    shown = "".join((task_folder / name).read_text("utf-8") for name in ("instruction.md", "environment/Dockerfile"))
    assert task.problem_statement.rstrip() in shown
    assert not any(secret in shown for secret in (task.patch, task.test_patch, *task.FAIL_TO_PASS))


def test_an_export_has_the_same_bytes_every_time_and_one_copy_of_an_environment(
    folder: Path, task: Task, task_folder: Path, tmp_path: Path
) -> None:
    write_tasks(tmp_path / "two", [task, task.model_copy(update={"task_id": "other", "instance_id": "other"})])
    export(tmp_path / "two", "harbor", tmp_path, options=BASE)
    again, other = tmp_path / "harbor" / task.task_id, tmp_path / "harbor" / "other"
    for path in task_folder.rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (again / path.relative_to(task_folder)).read_bytes(), path
    for name in ("env", "python"):
        assert (again / f"environment/{name}.tar.gz").samefile(other / f"environment/{name}.tar.gz")


def test_options_choose_interpreter_images_network_and_verifier(folder: Path, task: Task, tmp_path: Path) -> None:
    chosen = {"python": "image", "image": "registry/etude", "network": "public", "verifier": "shared"}
    export(folder, "harbor", tmp_path, options=chosen)
    made = tmp_path / "harbor" / task.task_id
    config = tomllib.loads((made / "task.toml").read_text("utf-8"))
    assert config["environment"]["docker_image"] == f"registry/etude:{task.task_id}"
    assert config["environment"]["network_mode"] == "public" and config["verifier"]["environment_mode"] == "shared"
    dockerfile = (made / "environment" / "Dockerfile").read_text()
    assert dockerfile.startswith("FROM python:3.") and "python.tar.gz" not in dockerfile
    assert not (made / "environment" / "python.tar.gz").exists()
    assert f"docker build -t registry/etude:{task.task_id} " in (tmp_path / "harbor" / "build_images.sh").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"base": "x"}, "unknown option 'base'. Did you mean 'base_image'?"),
        ({"network": "some"}, "option network must be 'no-network' or 'public', got 'some'"),
        ({"base_image": "a b"}, "option base_image must be the name of an image, got 'a b'"),
    ],
)
def test_a_wrong_option_is_one_line_and_writes_nothing(
    folder: Path, tmp_path: Path, options: dict[str, str], message: str
) -> None:
    with pytest.raises(ExportError) as error:
        export(folder, "harbor", tmp_path / "out", options=options)
    assert str(error.value) == message
    assert not list(tmp_path.glob("out/*")) and not list(tmp_path.glob("out/.*"))


def test_export_refuses_a_folder_in_the_way_and_a_task_without_a_repository(
    folder: Path, task: Task, tmp_path: Path
) -> None:
    (tmp_path / "harbor").mkdir()
    with pytest.raises(ExportError, match="harbor exists; remove it, or choose another --out"):
        export(folder, "harbor", tmp_path, options=BASE)
    write_tasks(tmp_path / "bare", [Task(task_id="drill", generator=task.generator, problem_statement="Do it.")])
    with pytest.raises(ExportError, match="drill has no snapshot, patch or FAIL_TO_PASS"):
        export(tmp_path / "bare", "harbor", tmp_path / "out")
    with pytest.raises(ExportError, match="the format swe-bench takes no options, got 'network'"):
        export(folder, "swe-bench", tmp_path / "out", options={"network": "public"})
    assert not list(tmp_path.glob("out/*"))


def sources(files: dict[str, bytes], links: dict[str, str]) -> bytes:
    """Return the archive that the agent's container sends."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in files.items():
            header = tarfile.TarInfo(name)
            header.size = len(content)
            tar.addfile(header, io.BytesIO(content))
        for name, target in links.items():
            header = tarfile.TarInfo(name)
            header.type, header.linkname = tarfile.SYMTYPE, target
            tar.addfile(header)
    return packed.getvalue()


def graded(task_folder: Path, task: Task, snapshot: Snapshot, archive: bytes | None) -> tuple[Any, Any]:
    """Return the reward and the details that the folder's own script writes, in a sandbox with other places."""
    job = json.loads((task_folder / "tests" / "job.json").read_text("utf-8"))
    job.update(workspace="/tmp/graded", logs="/tmp/logs", archive="/tmp/sources.tar")
    files = {"/tmp/tests/job.json": json.dumps(job).encode()}
    for name in ("grade.py", "tree.tar.gz"):
        files[f"/tmp/tests/{name}"] = (task_folder / "tests" / name).read_bytes()
    if archive is not None:
        files["/tmp/sources.tar"] = archive

    async def play() -> tuple[Any, Any]:
        sandbox = await open_sandbox(snapshot.layers(snapshot.tree))
        try:
            for path, content in files.items():
                await sandbox.write(path, content)
            done = await sandbox.exec("exec python -I -S -B /tmp/tests/grade.py", timeout_s=120)
            assert done.exit_code == 0, done.output
            texts = [await sandbox.read(f"/tmp/logs/{name}.json") for name in ("reward", "details")]
            return json.loads(texts[0]), json.loads(texts[1])
        finally:
            await sandbox.close()

    return asyncio.run(play())


def test_the_script_rewards_the_solution(task_folder: Path, task: Task, snapshot: Snapshot) -> None:
    package = snapshot.tree / "src" / "scales"
    solved = {f"src/scales/{path.name}": path.read_bytes() for path in package.glob("*.py")}
    reward, details = graded(task_folder, task, snapshot, sources(solved, {}))
    assert reward == {"reward": 1.0, "fail_to_pass": 1.0, "pass_to_pass": 1.0}, details
    assert details["refused"] == [] and details["problem"] == ""


@pytest.mark.parametrize("case", ["nothing", "untouched", "tests", "exit", "links", "damaged"])
def test_the_script_rewards_nothing_else(case: str, task_folder: Path, task: Task, snapshot: Snapshot) -> None:
    package = snapshot.tree / "src" / "scales"
    files = {f"src/scales/{path.name}": path.read_bytes() for path in package.glob("*.py")}
    with tarfile.open(task_folder / "environment" / "workspace.tar.gz") as tar:
        member = tar.extractfile(f"testbed/{SOURCE}")
        assert member is not None
        files[SOURCE] = member.read()
    links: dict[str, str] = {}
    if case == "tests":
        files["tests/test_notes.py"] = b"def test_x(): pass\n"
        files["src/scales/conftest.py"] = b"import pytest\n"
    elif case == "exit":
        files[SOURCE] += FORGE.encode()
    elif case == "links":
        links = {"src/scales/extra.py": "/etc/passwd", "../../escape.py": "/"}
        files["src/scales/notes.py/below.py"] = b""
    archive = b"no archive" if case == "damaged" else sources(files, links)
    reward, details = graded(task_folder, task, snapshot, None if case == "nothing" else archive)
    assert reward["reward"] == reward["fail_to_pass"] == 0.0
    assert set(details["failed"]["fail_to_pass"]) == set(task.FAIL_TO_PASS)
    refused = {
        "nothing": ["the agent's files did not arrive"],
        "tests": ["tests/test_notes.py", "src/scales/conftest.py"],
        "links": ["src/scales/notes.py/below.py", "src/scales/extra.py", "../../escape.py"],
        "damaged": ["the archive is damaged from here on"],
    }
    assert details["refused"] == refused.get(case, [])
    assert ("ended early" in details["problem"]) == (case == "exit")
