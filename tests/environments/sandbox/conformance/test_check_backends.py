"""The commands around sandboxes: the check's table, tidying up, a person's shell."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from helpers.sandboxes import in_sandbox

from etude.environments.sandbox import Layers
from etude.environments.sandbox.conformance import check_backends as checking
from etude.environments.sandbox.conformance.escapes.run import ESCAPES
from etude.environments.sandbox.conformance.suite import CHECKS
from etude.environments.sandbox.shell import converse
from etude.errors import UnknownName


@pytest.mark.slow
def test_a_backend_that_holds_everything() -> None:
    (row,) = checking.check(["bubblewrap"], times=True)
    assert (row.held, row.excused, row.failed, row.isolation) == (len(CHECKS) + len(ESCAPES), {}, {}, "namespaces")
    assert set(row.ms) == {"start", "exec", "reset", "save+restore", "changes"}
    assert checking.is_ok([row])


def test_a_backend_that_is_missing_is_a_failure_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///no/such/socket")
    rows = checking.check(["docker"])
    assert "apt-get install docker.io" in rows[0].unavailable
    assert not checking.is_ok(rows)
    assert "apt-get" in str(checking.as_rows(rows, {"docker run": 1.0})[0]["failed"])


def test_an_unknown_backend() -> None:
    with pytest.raises(UnknownName, match="Did you mean"):
        checking.check(["dokcer"])


def test_cleanup_removes_the_folder_of_a_dead_server_alone() -> None:
    dead = Path(tempfile.gettempdir(), f"etude-{os.getpid()}-1-test")
    dead.mkdir()
    (dead / "workspace").mkdir()
    removed = checking.clean_up()
    assert str(dead) in removed["process"] and not dead.exists()


def test_a_shell_keeps_its_folder_and_says_exit_codes(layers: Layers, capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["cd folder", "pwd", "", "exit 3", "exit", "echo never"]
    assert in_sandbox(layers, lambda sandbox: converse(sandbox, iter(lines)), backend="bubblewrap") == 3
    shown = capsys.readouterr()
    assert shown.out == "/workspace/folder\n" and "exit code 3" in shown.err
