"""The real readers, swebench's loader and `datasets`, in a separate virtual environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from etude.generators.export import export

READ = """
import json, sys
from datasets import load_dataset
from swebench.harness.utils import load_swebench_dataset
out = sys.argv[1]
rows = load_swebench_dataset(f"{out}/swe-bench.jsonl")
def table(name):
    return list(load_dataset("json", data_files=f"{out}/{name}.jsonl", split="train", cache_dir=f"{out}/cache"))
lists = {name: table(name) for name in ("sft", "messages", "swe-smith", "nemo-gym")}
print(json.dumps({"swebench": rows, "datasets": table("swe-bench"), **lists}, default=str))
"""


@pytest.mark.slow
def test_swebench_and_datasets_read_the_exported_rows(folder: Path, played: Path, tmp_path: Path) -> None:
    for name in ("swe-bench", "swe-smith", "nemo-gym"):
        export(folder, name, tmp_path)
    for name in ("sft", "messages"):
        export(folder, name, tmp_path, episodes=played)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    subprocess.run([python, "-m", "pip", "install", "-q", "swebench==4.1.0", "datasets>=4.7"], check=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    offline = {**environment, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")}
    done = subprocess.run([python, "-c", READ, tmp_path], cwd=tmp_path, env=offline, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    read = json.loads(done.stdout.splitlines()[-1])
    tasks = [json.loads(line) for line in (tmp_path / "swe-bench.jsonl").read_text().splitlines()]
    assert read["swebench"] == tasks
    for name in ("sft", "messages", "swe-smith"):  # without nulls for absent keys
        assert read[name] == [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]
    assert [row["task_id"] for row in read["nemo-gym"]] == [row["instance_id"] for row in tasks]
    # pyarrow reads SWE-bench's dates as dates.
    assert read["datasets"] == [{**row, "created_at": "2000-01-01 00:00:00"} for row in tasks]
