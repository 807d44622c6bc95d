"""One version of verifiers, a running server, and a scripted policy that knows the solutions."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMANDS = {"0.3.1": ("eval", "validate"), "0.4.0": ("vf-eval", "vf-validate")}
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


@dataclass(frozen=True)
class Ground:
    """A server, some of its tasks, and those that the policy can solve.

    ``rows`` is a file for verifiers' own taskset, ``options`` go to ours, ``kinds`` are the policy's three mistakes.
    """

    name: str
    url: str
    rows: Path
    solvable: Sequence[dict[str, Any]]
    kinds: Sequence[str]
    options: str = ""
    task_options: str = ""

    @property
    def task_ids(self) -> set[str]:
        return {json.loads(line)["task_id"] for line in self.rows.read_text().splitlines()}

    @property
    def ours(self) -> str:
        task = f'task = {{ resources_url = "{self.url}"{self.task_options} }}'
        return f'id = "etude-verifiers"\n{self.options}{task}'

    @property
    def stock(self) -> str:
        task = f'task = {{ resources_url = "{self.url}", request_timeout = 1800 }}'
        return f'id = "nemo-gym"\ndataset = "{self.rows}"\n{task}'


@dataclass(frozen=True)
class Bench:
    """One version of verifiers, installed in ``bin``; ``policy`` is running, and ``out`` is an empty folder."""

    version: str
    bin: Path
    ground: Ground
    policy: Any
    out: Path

    def eval(self, taskset: str) -> list[dict[str, Any]]:
        """Run `eval` and return its traces."""
        config = EVAL.format(policy=self.policy.url, taskset=taskset)
        written = self._run(COMMANDS[self.version][0], config, "traces.jsonl")
        return [trace for line in written.read_text().splitlines() for trace in json.loads(line)["traces"]]

    def validate(self, taskset: str, *options: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Run `validate` and return its summary, and its result for each task."""
        config = VALIDATE.format(taskset=taskset)
        written = self._run(COMMANDS[self.version][1], config, "summary.json", *options)
        results = (written.parent / "results.jsonl").read_text().splitlines()
        return json.loads(written.read_text()), [json.loads(line) for line in results]

    def run(self, command: Sequence[Any]) -> str:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        clean |= {"PATH": f"{self.bin}:{clean['PATH']}", "NO_KEY": "none"}
        done = subprocess.run(command, cwd=self.out, env=clean, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout + done.stderr

    def _run(self, command: str, config: str, written: str, *options: str) -> Path:
        file = self.out / f"{command}.toml"
        file.write_text(config)
        out = self.out / f"{command}-{len(list(self.out.iterdir()))}"
        few = ["-n", str(len(self.ground.task_ids))]
        self.run([self.bin / command, "@", file, "--no-rich", "--output-dir", out, *few, *options])
        (path,) = out.glob(f"*/{written}")
        return path

    def assert_reported_but_not_shown(self, errors: Sequence[dict[str, Any]], hints: str, episode_id: str) -> None:
        """Check that the host got the policy's mistakes with their hints, and that no request contains any of it."""
        assert [(error["turn"], error["kind"]) for error in errors][:3] == list(enumerate(self.ground.kinds))
        texts = [hint["text"] for error in errors for hint in error["hints"]]
        assert len(texts) >= 3 and set("\n".join(texts).split("\n")) == set(hints.split("\n"))
        secret = [*texts, "error_turns", "reward_components", "n_findings", episode_id]
        for request in self.requests():
            assert not [text for text in secret if json.dumps(text)[1:-1] in request]

    def requests(self) -> list[str]:
        """Return every request that the policy received."""
        requests = self.policy.log.read_text().split("\n")[:-1]
        assert any("grep_repo" in request for request in requests)
        return list(requests)
