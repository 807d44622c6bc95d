"""Rows on the Hub, read through the library ``datasets`` from a stand-in of the Hub; every failure is one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers import row_hub
from helpers.paths import DATA

from etude.errors import RowError
from etude.generators.library.rows.formats import read_instances

ROWS = (DATA / "rows" / "swe_bench.jsonl").read_bytes().splitlines(keepends=True)
SPLITS = {"data/test.jsonl": b"".join(ROWS[:2]), "data/train.jsonl": ROWS[0]}


def read(cache: Path, *sources: str, **environment: str) -> list[dict[str, Any]]:
    """Read each source in one process of its own, with these variables."""
    clean = {name: text for name, text in os.environ.items() if not name.startswith(("HF_", "HUGGING", "http"))}
    command = [sys.executable, str(Path(row_hub.__file__)), str(cache), *sources]
    env = {**clean, "HF_HOME": str(cache), "HF_HUB_DISABLE_XET": "1", **environment}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_rows_are_loaded_whole_streamed_and_at_a_commit(tmp_path: Path) -> None:
    commit = f"hub:example/shapes@{row_hub.COMMIT}"
    with row_hub.serving(SPLITS) as address:
        whole, streamed, pinned = read(
            tmp_path, "hub:example/shapes", "hub:example/shapes 1", commit, HF_ENDPOINT=address
        )
    assert whole == pinned
    assert whole["ids"] == ["example__shapes-101", "example__shapes-102"]
    assert (whole["dataset"], whole["format"]) == ("shapes", "swe-bench")
    assert streamed["ids"] == ["example__shapes-101"]


def test_each_refusal_of_the_hub_is_one_line(tmp_path: Path) -> None:
    with row_hub.serving(SPLITS) as address:
        gated, revision, missing = read(
            tmp_path, "hub:example/gated", "hub:example/shapes@v9", "swe-bench:lite", HF_ENDPOINT=address
        )
    assert gated["error"] == ("hub:example/gated is gated; accept its terms on its page and set HF_TOKEN to your token")
    assert revision["error"] == (
        "hub:example/shapes@v9 has no revision 'v9'; name a branch, a tag or a whole commit behind the @"
    )
    assert missing["error"] == (
        "hub:SWE-bench/SWE-bench_Lite does not exist or is private; "
        "check its name, or set HF_TOKEN to a token that may read it"
    )


@pytest.mark.slow
def test_a_hub_out_of_reach_is_one_line(tmp_path: Path) -> None:
    (unreachable,) = read(tmp_path, "hub:example/shapes", HF_ENDPOINT="http://127.0.0.1:9")
    assert unreachable["error"] == (
        "hub:example/shapes cannot be reached; connect to the network, or name a folder with the data set's files"
    )


def test_an_offline_machine_is_one_line(tmp_path: Path) -> None:
    (offline,) = read(tmp_path, "hub:example/shapes", HF_HUB_OFFLINE="1")
    assert offline["error"] == (
        "hub:example/shapes is not cached and HF_HUB_OFFLINE is set; "
        "unset it, or name a folder with the data set's files"
    )


def test_the_library_is_named_when_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(RowError, match=r"hub:a/b needs the package datasets; run: pip install 'etude\[hub\]'"):
        read_instances("hub:a/b")


@pytest.mark.parametrize("source", ["hub:", "hub:shapes", "hub:a/b/c", "hub:a b/c"])
def test_a_name_that_is_no_data_set_says_how_to_write_it(source: str) -> None:
    with pytest.raises(RowError, match="is not a data set; write hub:USER/NAME or hub:USER/NAME@REVISION"):
        read_instances(source)
