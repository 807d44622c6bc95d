"""Ray on this machine as a place of work, and requests that name no usable Ray."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

import pytest
from helpers.light_checks import LIGHT
from helpers.paths import DATA

from etude.errors import GeneratorError
from etude.generators.base import ProgressUpdate
from etude.generators.generate import generate
from etude.generators.output.publish import JOURNAL

SAMPLE = DATA / "scales"


def make_set(out: Path, **more) -> None:
    knobs = {"min_lines": 3, **LIGHT}
    generate([str(SAMPLE)], generators=["fd_function"], count=2, seed=7, out=out, knobs=knobs, **more)


def test_ray_gives_the_bytes_of_one_process_when_its_first_run_was_interrupted(tmp_path):
    def stop_after_one(update: ProgressUpdate) -> None:
        if (update.done, update.total) == (1, 2):
            raise KeyboardInterrupt

    updates: list[ProgressUpdate] = []
    with pytest.raises(KeyboardInterrupt):
        make_set(tmp_path / "ray", ray="local", jobs=2, progress=stop_after_one)
    assert (tmp_path / "ray" / JOURNAL).exists() and not (tmp_path / "ray" / "tasks.jsonl").exists()
    make_set(tmp_path / "ray", ray="local", jobs=2, progress=updates.append)
    make_set(tmp_path / "one", jobs=1)
    assert [update.done for update in updates if update.total == 2][0] >= 1
    for name in ("tasks.jsonl", "README.md"):
        assert (tmp_path / "ray" / name).read_bytes() == (tmp_path / "one" / name).read_bytes()
    report = json.loads((tmp_path / "ray" / "report.json").read_text())
    assert report["cpu_seconds"] > 0
    assert report["per_generator"]["fd_function"]["cpu_seconds"] == report["cpu_seconds"]


def test_an_address_without_a_cluster_is_refused_at_once(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with pytest.raises(GeneratorError, match=rf"no Ray cluster can be used at 127.0.0.1:{port} .*ray start --head"):
        make_set(tmp_path, ray=f"127.0.0.1:{port}")
    assert not list(tmp_path.iterdir())


def test_the_extra_is_named_when_ray_is_not_installed(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(GeneratorError, match=r"pip install 'etude\[ray\]'"):
        make_set(tmp_path, ray="local")
