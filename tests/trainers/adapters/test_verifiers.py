"""verifiers' own commands against a running server: our taskset, its stock ``nemo-gym`` taskset, and v0."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from etude.generators.export import export

pytestmark = pytest.mark.slow

VERSIONS = ["0.3.1", "0.4.0"]
COMMANDS = {"0.3.1": ("eval", "validate"), "0.4.0": ("vf-eval", "vf-validate")}
KINDS = ["tool_not_found", "malformed_call", "file_not_found"]

EVAL = """
model = "scripted"
push = false

[client]
base_url = "{policy}"
api_key_var = "NO_KEY"

[env.taskset]
{taskset}

[env.agent]
harness = {{ id = "null" }}
runtime = {{ type = "subprocess" }}
"""
VALIDATE = """
[runtime]
type = "subprocess"

[taskset]
{taskset}
"""


class Bench:
    """One version of verifiers beside a running server and a scripted policy that knows the solutions."""

    def __init__(self, version: str, bin_: Path, server: str, tasks: Path, policy: Any, out: Path) -> None:
        self.version, self.bin, self.server, self.tasks, self.policy, self.out = (
            version,
            bin_,
            server,
            tasks,
            policy,
            out,
        )

    @property
    def ours(self) -> str:
        return f'id = "etude-verifiers"\ntask = {{ resources_url = "{self.server}", solutions = "{self.tasks}" }}'

    @property
    def stock(self) -> str:
        export(self.tasks, "nemo-gym", self.out)
        task = f'{{ resources_url = "{self.server}", request_timeout = 1800 }}'
        return f'id = "nemo-gym"\ndataset = "{self.out}/nemo-gym.jsonl"\ntask = {task}'

    def eval(self, taskset: str) -> list[dict[str, Any]]:
        """The traces of `eval`."""
        config = EVAL.format(policy=self.policy.url, taskset=taskset)
        (written,) = self._run(COMMANDS[self.version][0], config, "traces.jsonl")
        return [trace for line in written.read_text().splitlines() for trace in json.loads(line)["traces"]]

    def validate(self, taskset: str, *options: str) -> dict[str, Any]:
        """The summary of `validate`."""
        config = VALIDATE.format(taskset=taskset)
        (written,) = self._run(COMMANDS[self.version][1], config, "summary.json", *options)
        return dict(json.loads(written.read_text()))

    def run(self, command: Sequence[Any]) -> str:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        clean |= {"PATH": f"{self.bin}:{clean['PATH']}", "NO_KEY": "none"}
        done = subprocess.run(command, cwd=self.out, env=clean, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout + done.stderr

    def _run(self, command: str, config: str, written: str, *options: str) -> list[Path]:
        file = self.out / f"{command}.toml"
        file.write_text(config)
        out = self.out / f"{command}-{len(list(self.out.iterdir()))}"
        self.run([self.bin / command, "@", file, "--no-rich", "--output-dir", out, *options])
        return list(out.glob(f"*/{written}"))

    def prompts(self) -> str:
        """Everything that the policy was sent."""
        return str(self.policy.log.read_text())


@pytest.fixture(params=VERSIONS)
def bench(
    request: pytest.FixtureRequest,
    environment_with: Callable[[str], Path],
    server: str,
    tasks: Path,
    policy: Any,
    tmp_path: Path,
) -> Iterator[Bench]:
    version = request.param
    with policy.Policy(policy.read_tasks(tasks / "tasks.jsonl"), tmp_path / "requests.jsonl") as endpoint:
        yield Bench(version, environment_with(version), server, tasks, endpoint, tmp_path)


def assert_told_and_not_shown(bench: Bench, errors: list[dict[str, Any]], hints: str) -> None:
    """The policy's three mistakes are in the trace with their hints, and none of that is in what it was sent."""
    assert [(error["turn"], error["kind"]) for error in errors][:3] == list(enumerate(KINDS))
    prompts = bench.prompts()
    assert "grep_repo" in prompts
    for error in errors[:3]:
        assert error["hints"], error
        for hint in error["hints"]:
            assert hint["text"] in hints and json.dumps(hint["text"])[1:-1] not in prompts
    assert "error_turns" not in prompts and "fail_to_pass" not in prompts


def test_eval_plays_our_taskset(bench: Bench) -> None:
    traces = bench.eval(bench.ours)
    assert len(traces) == 2
    for trace in traces:
        assert trace["ok"] and trace["rewards"]["solved"]["score"] == 1.0
        assert trace["metrics"]["fail_to_pass"] == 1.0 and trace["metrics"]["n_error_turns"] >= 3
        errors = trace["info"]["error_turns"]
        assert_told_and_not_shown(bench, errors, trace["info"]["hints"])
        for error in errors[:3]:
            assert trace["nodes"][error["node"]]["message"]["tool_calls"][0]["id"] == error["call_id"]
            assert trace["nodes"][error["result_node"]]["message"]["tool_call_id"] == error["call_id"]
    assert {trace["task"]["key"] for trace in traces} == {row["task_id"] for row in bench.policy.tasks}


def test_eval_plays_the_stock_taskset(bench: Bench) -> None:
    traces = bench.eval(bench.stock)
    assert len(traces) == 2
    for trace in traces:
        assert trace["ok"] and trace["rewards"]["nemo_gym"]["score"] == 1.0
        told = trace["info"]["nemo_gym"]
        assert told["reward_components"]["fail_to_pass"] == trace["metrics"]["fail_to_pass"] == 1.0
        assert_told_and_not_shown(bench, told["error_turns"], told["hints"])


def test_validate_checks_our_tasks(bench: Bench) -> None:
    summary = bench.validate(bench.ours)
    assert summary["outcomes"]["valid"] == summary["total"] == 2
    other = "setup" if bench.version == "0.3.1" else "noop"
    assert summary["checks"]["gold"]["valid"] == summary["checks"][other]["valid"] == 2


def test_validate_checks_the_stock_tasks(bench: Bench) -> None:
    summary = bench.validate(bench.stock, "--only-setup")
    assert summary["outcomes"]["valid"] == summary["total"] == 2


def test_the_adapters_environment_has_no_openenv(bench: Bench) -> None:
    assert "openenv" not in bench.run([bench.bin / "python", "-m", "pip", "list"]).lower()
    assert "No broken requirements" in bench.run([bench.bin / "python", "-m", "pip", "check"])


V0 = """
import asyncio, json, sys
import verifiers as vf
from verifiers.types import ClientConfig
server, policy, turns = sys.argv[1:]
environment = vf.load_environment("etude-verifiers", url=server, max_turns=int(turns))
client = ClientConfig(api_base_url=policy, api_key_var="NO_KEY")
columns = ["hints", "error_turns"]
out = environment.evaluate(client, "scripted", num_examples=2, rollouts_per_example=1, state_columns=columns)
rows = asyncio.run(out)["outputs"]
print("\\n" + json.dumps([{key: row[key] for key in ("reward", "error", "info", *columns)} for row in rows]))
"""


@pytest.mark.parametrize("bench", ["0.3.1"], indirect=True)
@pytest.mark.parametrize(("turns", "reward"), [("20", 1.0), ("6", 1.0), ("5", 0.0)])
def test_v0_plays_the_same_tasks(bench: Bench, turns: str, reward: float) -> None:
    """Six turns are just enough: the last one is the call of submit, which then counts."""
    told = bench.run([bench.bin / "python", "-c", V0, bench.server, bench.policy.url, turns])
    rows = json.loads(next(line for line in reversed(told.splitlines()) if line.startswith("[{")))
    assert [(row["reward"], row["error"]) for row in rows] == [(reward, None)] * 2
    for row in rows:
        assert row["info"]["error_turns"] == row["error_turns"]
        assert_told_and_not_shown(bench, row["error_turns"], row["hints"])


@pytest.mark.parametrize("bench", ["0.4.0"], indirect=True)
def test_where_there_is_no_v0_the_error_says_what_to_use(bench: Bench) -> None:
    code = "import etude_verifiers as e\ntry: e.load_environment()\nexcept ImportError as error: print(error)"
    assert "use the taskset etude-verifiers" in bench.run([bench.bin / "python", "-c", code])
