"""Fields that a changed constructor makes without its arguments are added to objects that come from a test."""

from __future__ import annotations

import base64
import threading
from typing import Any

import pytest

from etude.environments.grading.out_of_process.processes.programs import worker_parts
from etude.environments.grading.out_of_process.targets import changed_constructors
from etude.models import FileChange


@pytest.fixture(scope="module")
def side() -> dict[str, Any]:
    scope: dict[str, Any] = {"__name__": "side"}
    for part in worker_parts():
        exec(compile(part, "<side>", "exec"), scope)
    scope["is_of_tests"] = lambda module: False
    return scope


class Page:
    __slots__ = ("__dict__", "__weakref__", "slot")

    def __init__(self, host: str, size: int = 3) -> None:
        self.host = host
        self.longer = host + "x"
        self._cache: dict[str, str] = {}
        self.__lock = threading.Lock()
        self.slot = [1]
        self.broken = 1 // 0 if host else 0
        for part in (1, 2):
            self.part = part
        self.last = part

    @property
    def lock(self) -> Any:
        return self.__lock


class Below(Page):
    pass


@pytest.mark.parametrize("kind", [Page, Below])
def test_what_the_constructor_makes_of_nothing_is_made(side: dict[str, Any], kind: type) -> None:
    sender = side["Values"]()
    bare: Any = kind.__new__(kind)
    bare.host = "a"
    sender.begin()
    form = sender.encode(bare)
    arrived = side["SolutionValues"]([], [], [f"{__name__}:Page"]).decode(form)
    assert vars(arrived).keys() == {"host", "_cache", "_Page__lock"} and arrived._cache == {} and arrived.slot == [1]
    assert arrived.lock.acquire(blocking=False) and arrived.host == "a"
    assert vars(side["SolutionValues"]([], [], []).decode(form)) == {"host": "a"}


def test_a_field_that_is_there_stays(side: dict[str, Any]) -> None:
    sender, receiver = side["Values"](), side["SolutionValues"]([], [], [f"{__name__}:Page"])
    bare: Any = Page.__new__(Page)
    bare._cache = {"a": "b"}
    for _ in range(2):
        sender.begin()
        assert receiver.decode(sender.encode(bare))._cache == {"a": "b"}


def test_the_solutions_side_notes_changes_of_opaque_objects(side: dict[str, Any]) -> None:
    values = side["SolutionValues"]([f"{__name__}:Below"], [], [f"{__name__}:Page"])
    below: Any = Below.__new__(Below)
    below.items = [1]
    assert values.digests(below) == {"items": '["l","0.1",[1]]'} and values.texts([[1]]) == ['["l","0.1",[1]]']


def test_constructors_that_a_solution_changes_are_found(tmp_path: Any) -> None:
    before = b"class A:\n    def __init__(self):\n        pass\n\n    class B:\n        def f(self): ...\n"
    after = b"class A:\n    def __init__(self):\n        self.x = 1\n\n    class B:\n        def __init__(self): ...\n"
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "m.py").write_bytes(before)

    def change(path: str, content: bytes) -> FileChange:
        return FileChange(path=path, kind="file", content=base64.b64encode(content).decode())

    changes = [change("src/m.py", after), change("src/new.py", before), change("src/bad.py", b"def (")]
    deep = change("src/deep.py", b"x = " + b"(" * 50_000 + b")" * 50_000)
    assert changed_constructors(tmp_path, [*changes, deep], ["src"]) == ["m:A", "m:A.B", "new:A"]
    assert changed_constructors(tmp_path, [change("src/m.py", before), change("notes.txt", after)], ["src"]) == []
