"""The graders of swebench and SWE-smith over logs of exported rows; runs where both are installed.

python reports.py FOLDER: it holds the rows, and logs TOOL.oracle.txt and TOOL.empty.txt. Prints what each resolved.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swebench.harness.constants import MAP_REPO_TO_EXT, MAP_REPO_VERSION_TO_SPECS
from swebench.harness.grading import get_eval_report
from swebench.harness.log_parsers import MAP_REPO_TO_PARSER
from swebench.harness.log_parsers.python import parse_log_pytest
from swebench.harness.test_spec.test_spec import make_test_spec
from swebench.harness.utils import load_swebench_dataset
from swesmith.harness import grading as smith
from swesmith.profiles import registry
from swesmith.profiles.python import PythonProfile

STATES = ("oracle", "empty")


def swebench(folder: Path) -> dict[str, bool]:
    row = load_swebench_dataset(str(folder / "swe-bench.jsonl"))[0]
    MAP_REPO_TO_PARSER[row["repo"]] = parse_log_pytest
    MAP_REPO_TO_EXT[row["repo"]] = "py"
    commands = {"python": "3.11", "install": "true", "test_cmd": "pytest -rA"}
    MAP_REPO_VERSION_TO_SPECS[row["repo"]] = {row["version"]: commands}
    name = row["instance_id"]
    prediction = {"instance_id": name, "model_name_or_path": "x", "model_patch": row["patch"]}
    spec = make_test_spec(row)
    logs = {state: str(folder / f"swe-bench.{state}.txt") for state in STATES}
    return {state: get_eval_report(spec, prediction, log, True)[name]["resolved"] for state, log in logs.items()}


def register(row: dict[str, Any]) -> None:
    """Register the profile of an exported row, as in ``docs/exports.md``."""
    name, _, commit = row["repo"].removeprefix("swesmith/").rpartition(".")

    @dataclass
    class Profile(PythonProfile):
        owner: str = name.partition("__")[0]
        repo: str = name.partition("__")[2]
        commit: str = row["base_commit"]
        test_cmd: str = row["test_cmd"]
        min_testing: bool = True

    assert row["base_commit"].startswith(commit)
    registry.register_profile(Profile)


def swesmith(folder: Path) -> dict[str, bool]:
    row = json.loads((folder / "swe-smith.jsonl").read_text().splitlines()[0])
    register(row)
    profile = registry.get_from_inst(row)
    assert profile.get_test_cmd(row)[0].startswith("python -m pytest")
    assert profile.image_name == row["image_name"] and profile.mirror_name == row["repo"]
    prediction = {"instance_id": row["instance_id"], "model_name_or_path": "x", "model_patch": row["patch"]}
    logs = {state: str(folder / f"swe-smith.{state}.txt") for state in STATES}
    return {state: smith.get_eval_report(prediction, row, log)["resolved"] for state, log in logs.items()}


if __name__ == "__main__":
    place = Path(sys.argv[1])
    print(json.dumps({"swebench": swebench(place), "swesmith": swesmith(place)}))
