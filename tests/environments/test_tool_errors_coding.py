"""Every fault in a real coding episode: an agent that recovers, one that does not, both annotated exactly."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from etude.environments.annotations import annotated
from etude.environments.coding.session import CodingSession
from etude.environments.faults import FAULTS
from etude.environments.tasks.task_set import TaskSet, write_tasks
from etude.models import Episode

Action = dict[str, Any]
Row = tuple[int, int | None, str, str, bool, bool | None, int | None]
CORE = "src/tally/core.py"
STUB, BODY = "    raise NotImplementedError\n", "    return sum(values)\n"
SOLVED = f"""from .words import LIMIT


def total(values):
{BODY}

def largest(values):
    return min(max(values), LIMIT)
"""


def call(tool: str, **arguments: Any) -> Action:
    return {"tool": tool, "arguments": arguments}


def edit(tool: str = "edit_file", old: str = STUB, new: str = BODY) -> Action:
    return call(tool, path=CORE, old=old, new=new)


def sed(path: str) -> Action:
    return call("bash", command=f"sed -i 's/raise NotImplementedError/return sum(values)/' {path}")


SUBMIT = call("submit", summary="That is all.")
READ = call("read_file", path=CORE)
WRITE = call("write_file", path=CORE, content=SOLVED)
WRONG = "    return values\n"


def by_its_new_name(first_result: str) -> list[Action]:
    (name,) = re.findall(r"did you mean '(\w+)'", first_result)
    return [edit(name)]


def with_the_new_argument(first_result: str) -> list[Action]:
    ((old, new),) = re.findall(r"has no argument '(\w+)'; did you mean '(\w+)'", first_result)
    return [call("edit_file", **{new if name == old else name: value for name, value in edit()["arguments"].items()})]


@dataclass(frozen=True)
class Case:
    """``struck`` comes after ``before`` and gets a result that starts with ``first_result``.

    An agent that recovers plays what ``recovers`` makes of that result; one that does not plays ``fails``, with the
    errors ``more``. ``advice`` is in the hint.
    """

    struck: Action
    kind: str
    first_result: str
    recovers: Callable[[str], list[Action]]
    advice: str
    before: Sequence[Action] = ()
    fails: Sequence[Action] = ()
    more: Sequence[Row] = ()


def again(*actions: Action) -> Callable[[str], list[Action]]:
    return lambda first_result: list(actions)


BROKE, LIMITED = "connection reset by the tool server", "rate limit: too many calls, try again"
CASES = {
    "transient": Case(edit(), "transport_error", f"error transport_error: {BROKE}", again(edit()), "check that first"),
    "timeout": Case(
        edit(), "timeout", "error timeout: the tool server did not answer in time", again(edit()), "check that first"
    ),
    "permission": Case(
        edit(), "nonzero_exit", "error permission_denied: permission denied", again(edit()), "same call once more"
    ),
    "rate_limit": Case(edit(), "transport_error", f"error transport_error: {LIMITED}", again(edit()), "once more"),
    "truncated": Case(READ, "injected_fault", "ok\n", again(READ, edit()), "incomplete"),
    "garbled": Case(READ, "injected_fault", "ok\n", again(READ, edit()), "incomplete"),
    "renamed": Case(edit(), "tool_not_found", "error tool_not_found: ", by_its_new_name, "edit_file"),
    "changed_schema": Case(edit(), "invalid_args", "error invalid_args: ", with_the_new_argument, "edit_file"),
    "withdrawn": Case(
        edit(), "tool_not_found", "error tool_not_found: there is no tool 'edit_file'", again(sed(CORE)), "tool"
    ),
    "wrong_directory": Case(sed(CORE), "nonzero_exit", "exit 2\n", again(sed(f"/workspace/{CORE}")), "full path"),
    "partial_write": Case(WRITE, "nonzero_exit", "error io_error: wrote ", again(WRITE), "write all of it"),
    # The result does not show the wrong edit: an agent that trusts it edits a text that the file has lost.
    "stale_read": Case(
        READ,
        "injected_fault",
        "ok\n",
        again(READ, edit(old=WRONG)),
        "out of date",
        before=[READ, edit(new=WRONG)],
        fails=[edit()],
        more=[(3, 0, "edit_failed", "erring", False, False, None)],
    ),
}
Play = Callable[..., Episode]


@pytest.fixture(scope="module")
def play(tasks: TaskSet) -> Iterator[Play]:
    """Plays episodes in one session: its sandbox is opened once."""
    with asyncio.Runner() as runner:
        session = CodingSession(tasks)

        async def episode(faults: str, *actions: Action | Callable[[str], list[Action]]) -> Episode:
            last = await session.reset(faults=faults)
            for step in actions:
                for action in step(last.messages[0].content) if callable(step) else [step]:
                    last = await session.step(action)
            return session.episode()

        yield lambda *options: runner.run(episode(*options))
        runner.run(session.close())


def score(episode: Episode) -> float:
    assert episode.reward is not None and episode.reward.valid
    return episode.reward.value


def rows(episode: Episode) -> list[Row]:
    return [
        (error.turn, error.call_index, error.kind, error.site, error.injected, error.recovered, error.turns_to_recover)
        for error in episode.error_turns
    ]


def test_every_kind_has_a_case() -> None:
    assert set(CASES) == set(FAULTS.paths())


@pytest.mark.parametrize("kind", CASES)
def test_an_agent_that_recovers_solves_the_task(kind: str, play: Play) -> None:
    case, at = CASES[kind], len(CASES[kind].before)
    episode = play(f"{kind}@{at}", *case.before, case.struck, case.recovers, SUBMIT)
    assert [(fault.kind, fault.turn, fault.call_index, fault.tool) for fault in episode.injected] == [
        (kind, at, 0, case.struck["tool"])
    ]
    assert episode.turns[at].messages[0].content.startswith(case.first_result)
    assert rows(episode) == [(at, 0, case.kind, "recovery", True, True, 1)]
    assert case.advice in episode.error_turns[0].hints[0].text
    assert score(episode) == 1.0
    assert annotated(Episode.model_validate_json(episode.model_dump_json())) == episode.error_turns


@pytest.mark.parametrize("kind", CASES)
def test_an_agent_that_does_not_recover_scores_zero(kind: str, play: Play) -> None:
    case, at = CASES[kind], len(CASES[kind].before)
    episode = play(f"{kind}@{at}", *case.before, case.struck, *case.fails, SUBMIT)
    assert rows(episode) == [(at, 0, case.kind, "recovery", True, False, None), *case.more]
    assert (score(episode), episode.end) == (0.0, "submit")


def test_a_withheld_call_is_not_run_and_half_of_a_partial_write_is(play: Play) -> None:
    look = call("bash", command=f"tail -n 1 {CORE}")
    withheld = play("timeout@0", edit(), call("bash", command="git status --short"))
    assert withheld.turns[1].messages[0].content == "ok"
    half = play("partial_write@0", WRITE, look)
    assert half.turns[1].messages[0].content.partition("\n")[2] == SOLVED[: len(SOLVED) // 2].rpartition("\n")[2]


def test_a_tool_that_the_agent_keeps_calling_by_its_old_name_is_its_own_error(play: Play) -> None:
    episode = play("renamed@0", edit(), edit(), SUBMIT)
    assert rows(episode) == [
        (0, 0, "tool_not_found", "recovery", True, False, None),
        (1, 0, "tool_not_found", "erring", False, False, None),
    ]
    assert score(episode) == 0.0


# --- Seeds ------------------------------------------------------------------------------------------------------

FAULTY = "rate=0.6,most=9,seed=5"
ACTIONS = [READ, call("list_files"), READ, edit(), WRITE, READ, sed(CORE), call("search", pattern="total"), READ]
SCHEDULED = """
import asyncio, json, sys
from pathlib import Path
from etude.environments.coding.session import CodingSession
from etude.environments.tasks.task_set import TaskSet
async def main():
    session = CodingSession(TaskSet.load(Path(sys.argv[1])), faults=sys.argv[2])
    await session.reset()
    for action in json.loads(sys.argv[3]):
        await session.step(action)
    episode = session.episode()
    print(json.dumps([episode.model_dump(mode="json")[name] for name in ("injected", "error_turns")]))
    await session.close()
asyncio.run(main())
"""


def test_the_same_seed_gives_the_same_faults_in_another_process(tasks: TaskSet, play: Play, tmp_path: Path) -> None:
    write_tasks(tmp_path, tasks)
    command = [sys.executable, "-c", SCHEDULED, str(tmp_path), FAULTY, json.dumps(ACTIONS)]
    other = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONHASHSEED": "7"}
    )
    here = play(FAULTY, *ACTIONS).model_dump(mode="json")
    assert json.loads(other.stdout) == [here["injected"], here["error_turns"]]
    assert len({fault["kind"] for fault in here["injected"]}) > 3
