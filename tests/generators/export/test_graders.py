"""The graders of swebench 4.1.0 and SWE-smith 0.0.9 over logs of exported rows, in a separate virtual environment."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from helpers.tool_environments import make_environment, run

from etude.environments.sandbox import open_sandbox
from etude.environments.snapshots import Snapshot, make_workspace
from etude.generators.export import export
from etude.models import Task

pytestmark = pytest.mark.slow

TOOLS = ["swesmith[validate]==0.0.9", "swebench==4.1.0"]
# As SWE-smith's harness writes it, once the hidden tests are back in the tree.
SMITH_SCRIPT = """set -uxo pipefail
cd /workspace
: '>>>>> Start Test Output'
{test_cmd}
: '>>>>> End Test Output'
"""


def log_of(snapshot: Snapshot, task: Task, patches: list[tuple[str, str]], script: str) -> str:
    """Return what a script prints in the task's workspace after the patches (with options of git apply)."""
    layers = snapshot.layers(make_workspace(snapshot, task.workspace_patch, git=True).path)

    async def play() -> str:
        sandbox = await open_sandbox(layers)
        try:
            for patch, options in patches:
                done = await sandbox.exec(f"git apply {options} -", stdin=patch.encode())
                assert done.exit_code == 0, done.output
            return (await sandbox.exec(["bash", "-s"], stdin=script.encode(), timeout_s=120)).output.decode()
        finally:
            await sandbox.close()

    return asyncio.run(play())


def first(folder: Path, name: str) -> dict[str, Any]:
    row: dict[str, Any] = json.loads((folder / f"{name}.jsonl").read_text("ascii").splitlines()[0])
    return row


def test_other_graders_resolve_the_oracle_and_not_the_empty_patch(
    folder: Path, task: Task, snapshot: Snapshot, tmp_path: Path, root: Path
) -> None:
    for name in ("swe-bench", "swe-smith"):
        export(folder, name, tmp_path)
    bench, smith = first(tmp_path, "swe-bench"), first(tmp_path, "swe-smith")
    script = SMITH_SCRIPT.format(test_cmd=smith["test_cmd"])
    logs = {
        "swe-bench.oracle": ([(bench["patch"], "")], bench["eval_script"].replace("/testbed", "/workspace")),
        "swe-bench.empty": ([], bench["eval_script"].replace("/testbed", "/workspace")),
        # SWE-smith's solution is its patch in reverse.
        "swe-smith.oracle": ([(smith["patch"], "--reverse"), (smith["test_patch"], "")], script),
        "swe-smith.empty": ([(smith["test_patch"], "")], script),
    }
    for name, (patches, text) in logs.items():
        (tmp_path / f"{name}.txt").write_text(log_of(snapshot, task, patches, text))
    python = make_environment(tmp_path, TOOLS) / "python"
    printed = run([python, root / "tests/generators/export/tools/reports.py", tmp_path], tmp_path)
    resolved = json.loads(printed.splitlines()[-1])
    assert resolved == {tool: {"oracle": True, "empty": False} for tool in ("swebench", "swesmith")}
