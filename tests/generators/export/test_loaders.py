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
table = load_dataset("json", data_files=f"{out}/swe-bench.jsonl", split="train", cache_dir=f"{out}/cache")
chats = load_dataset("json", data_files=f"{out}/sft.jsonl", split="train", cache_dir=f"{out}/cache")
print(json.dumps({"swebench": rows, "datasets": list(table), "sft": list(chats)}, default=str))
"""


@pytest.mark.slow
def test_swebench_and_datasets_read_the_exported_rows(folder: Path, played: Path, tmp_path: Path) -> None:
    export(folder, "swe-bench", tmp_path)
    export(folder, "sft", tmp_path, episodes=played)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    subprocess.run([python, "-m", "pip", "install", "-q", "swebench==4.1.0", "datasets>=4.7"], check=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    offline = {**environment, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")}
    done = subprocess.run([python, "-c", READ, tmp_path], cwd=tmp_path, env=offline, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    read = json.loads(done.stdout.splitlines()[-1])
    tasks = [json.loads(line) for line in (tmp_path / "swe-bench.jsonl").read_text().splitlines()]
    chats = [json.loads(line) for line in (tmp_path / "sft.jsonl").read_text().splitlines()]
    assert read["swebench"] == tasks
    assert read["sft"] == chats  # without nulls for absent keys
    # pyarrow reads SWE-bench's dates as dates.
    assert read["datasets"] == [{**row, "created_at": "2000-01-01 00:00:00"} for row in tasks]
