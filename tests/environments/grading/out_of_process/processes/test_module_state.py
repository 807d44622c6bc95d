"""State of modules: a function that registers something is judged by what it registers; caches do not count."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from helpers.recorded_tasks import HIDDEN, grade_of, task_with, with_record, without_held_out

from etude.environments.grading.out_of_process.judging.recorded_state import incomparable, net_state, steady_states
from etude.environments.grading.out_of_process.processes.programs import boundary_parts
from etude.environments.grading.out_of_process.recorded_calls import RecordedCalls
from etude.environments.snapshots import Snapshot
from etude.models import Grade, Task

HEAD = """import functools

PORTS = {"http": 80}
SCHEMES = set()


def largest(values):
    return max(values)


def total(values):
    return sum(values)


def register(name, port):
"""
OWN = "    PORTS[name] = port\n    SCHEMES.add(name)\n    return f'{name}:{port}'\n"
HIDDEN_TESTS = """import pytest

from tally.core import register


@pytest.mark.parametrize("n", range(8))
def test_register(n):
    assert register("x" * (n + 1), 70 + n) == "x" * (n + 1) + ":" + str(70 + n)
    assert register("y", n) == f"y:{n}"
"""
HONEST = {
    "other steps": "    text = ':'.join([name, str(port)])\n    SCHEMES.update({name})\n    PORTS.pop(name, None)\n"
    "    PORTS.update({name: port})\n    return text\n",
    "caches": "    _texts_cache[name] = port\n    _log.append(name)\n    PORTS[name] = port\n    SCHEMES.add(name)\n"
    "    return _text(name, port)\n\n\n_texts_cache = {}\n_log = []\n\n\n@functools.lru_cache\n"
    "def _text(name, port):\n    return f'{name}:{port}'\n",
}
WRONG = {
    "registers nothing": "    return f'{name}:{port}'\n",
    "registers another port": OWN.replace("= port", "= 0"),
    "registers half": OWN.replace("    SCHEMES.add(name)\n", ""),
    "forgets the others": OWN.replace("    PORTS[", "    PORTS.clear()\n    PORTS["),
}


def source(body: str) -> bytes:
    return (HEAD + body).encode()


@pytest.fixture(scope="module")
def examined(task: Task, snapshot: Snapshot) -> Task:
    """Return a task whose tests do not look at what is registered, with its record and without held-out calls."""
    exercise = source("    raise NotImplementedError\n")
    failing = [f"{HIDDEN}::test_register[{n}]" for n in range(8)]
    other = task_with(task, snapshot, "tally-ports", exercise, source(OWN), HIDDEN_TESTS, failing)
    return without_held_out(with_record(other, snapshot))


def graded(task: Task, body: str) -> Grade:
    return grade_of(task, source(body))


@pytest.mark.parametrize("name", WRONG)
def test_a_solution_that_leaves_another_registry_scores_zero(examined: Task, name: str) -> None:
    result = graded(examined, WRONG[name])
    assert result.reward.components["fail_to_pass"] == 1.0
    assert result.reward.value == 0.0 == result.reward.components["behaviour"]
    assert "its calls leave another tally.core:" in result.failures[0].cause


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_solution_scores_one(examined: Task, name: str) -> None:
    result = graded(examined, HONEST[name])
    assert result.failures == [] and result.reward.value == 1.0


def test_what_a_call_changes_is_named_and_what_is_a_cache_is_not() -> None:
    side: dict[str, Any] = {"__name__": "side"}
    for part in boundary_parts():
        exec(compile(part, "<side>", "exec"), side)
    module: Any = type(pytest)("ports")
    text = "KNOWN = {'a': 1}\nNAMES = {1}\nORDER = [1]\nLEVEL = 0\n_cache = {}\nclass Kind:\n    made = []\n"
    exec(text, vars(module))
    module.Kind.__module__ = "ports"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(__import__("sys").modules, "ports", module)
        values, state = side["Values"](packages=["ports"]), side["ModuleState"](["ports"])
        few = side["ModuleState"](["ports"], ["ports:KNOWN", "ports:Kind.made", "ports:NOWHERE", "ports:No.x"])
        assert state.changes(values) == {} == few.changes(values)
        module.KNOWN.update(a=1, b=2)
        module.NAMES.discard(1)
        module.ORDER.append(2)
        module.LEVEL = 5
        module.Kind.made.append(module)
        module._cache["x"] = 1
        found, found_by_name = state.changes(values), few.changes(values)
    assert found_by_name == {name: found[name] for name in ("ports:KNOWN", "ports:Kind.made")}
    assert found == {
        "ports:KNOWN": [["b", 2]],
        "ports:Kind.made": [[None, ["l", "0.1", [["g", "ports", ""]]]]],
        "ports:LEVEL": [[None, 5]],
        "ports:NAMES": [[1, ["gone"]]],
        "ports:ORDER": [[None, ["l", "0.1", [1, 2]]]],
    }


def test_what_calls_leave_in_the_end_counts_where_runs_agree() -> None:
    one = net_state(
        [{"modules": {"m:A": [["x", 1]]}}, {}, {"modules": {"m:A": [["x", 2], ["y", ["gone"]]], "m:_B": []}}]
    )
    assert one == {"m:A": {'"x"': 2, '"y"': ["gone"]}}
    for odd in (None, {"modules": 3}, {"modules": {"m:A": 3}}, {"modules": {"m:A": [3, [1]]}}):
        assert net_state([odd]) == {}
    both = {"t": {"m:A": {"1": 1}, "m:_B": {"1": 1}}}
    assert steady_states(both, {"t": {"m:A": {"1": 1}}}) == {"t": {"m:A": {"1": 1}}}
    recorded = RecordedCalls([], [], [], {"t": []}, module_state={"t": {"m:A": {"1": 1}}})
    assert incomparable(recorded, both) == ""
    assert "m:A differs from run to run" in incomparable(replace(recorded, module_state={}), both)
