"""An opened episode as data: the difference from the reference solution, and what is secret."""

from __future__ import annotations

import base64
import json
from typing import Any

from helpers.viewer_runs import marked_row

from etude.environments.runs.reader import Stored, stored_of
from etude.server.viewer.details import detail_of

WORKSPACE = {"src/app.py": "def answer():\n    pass\n", "src/other.py": "x = 1\n"}
SOLVED = {"src/app.py": "def answer():\n    return 42\n", "src/other.py": "x = 2\n"}


def stored(text: str) -> Stored:
    content = base64.b64encode(text.encode()).decode()
    episode = stored_of(marked_row(diff=[{"path": "src/app.py", "kind": "file", "content": content}]))
    assert episode is not None
    return episode


def oracle(text: str, *, reveal: bool = True) -> Any:
    def solution() -> Any:
        assert reveal, "the reference solution was read"
        return list(SOLVED), SOLVED.get

    detail = detail_of(stored(text), base=WORKSPACE.get, solution=solution, room=100_000, reveal=reveal)
    return detail["oracle"]


def test_oracle_lists_files_that_differ_from_the_reference_solution() -> None:
    (other,) = oracle(SOLVED["src/app.py"])
    assert (other["path"], other["added"], other["removed"]) == ("src/other.py", 1, 1)
    lines = [(kind, text) for kind, _, _, text in other["lines"]]
    assert lines == [("removed", "x = 2"), ("added", "x = 1")]
    assert [file["path"] for file in oracle("def answer():\n    return 41\n")] == ["src/app.py", "src/other.py"]


def test_reference_solution_is_not_read_unless_it_may_be_revealed() -> None:
    assert oracle("x", reveal=False) is None


def test_detail_holds_no_hidden_test_unless_it_may_be_revealed() -> None:
    for reveal in (True, False):
        text = json.dumps(detail_of(stored("x"), room=100_000, reveal=reveal))
        assert ("test_secret" in text) is reveal
        assert ("assert 1 == 2" in text) is reveal


def test_detail_fits_into_its_room() -> None:
    episode = stored("x" * 100_000).episode
    long = episode.model_copy(update={"turns": episode.turns * 500, "prompt": "p" * 100_000})
    detail = detail_of(Stored(long, "agent", 0, {}), room=50_000)
    assert len(json.dumps(detail)) < 300_000
    assert detail["left_out"] == 2000 - len(detail["turns"]) > 0
