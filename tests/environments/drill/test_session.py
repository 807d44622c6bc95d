"""The drill session: it keeps the rules that every session keeps."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.faulty_drills import TASKS, play

from etude import hints, make
from etude.environments.annotations import annotated
from etude.environments.drill.session import DrillSession
from etude.environments.drill.tasks import DrillTasks
from etude.environments.forks import EpisodeStore
from etude.environments.running import Budget
from etude.environments.tool_protocol import NOT_RUN
from etude.errors import SessionError
from etude.models import Episode

TASK = "drill-schema-3-l2"
TALK = {"text": "I think about it."}


def episode_of(*actions: dict[str, Any], task_id: str = TASK, **options: Any) -> Episode:
    async def script(session: DrillSession) -> Episode:
        await session.reset(task_id=task_id)
        for action in actions:
            await session.step(action)
        return session.episode()

    episode: Episode = play(script, **options)
    return episode


def contents(episode: Episode) -> list[str]:
    return [message.content for turn in episode.turns for message in turn.messages]


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool": name, "arguments": arguments}


def solution(task_id: str = TASK) -> list[dict[str, Any]]:
    drill = TASKS.drill(task_id)
    return [*(call(name, **arguments) for name, arguments in drill.solution()), call("submit", answer=drill.answer)]


def test_a_reset_shows_the_statement_and_the_tools() -> None:
    async def script(session: DrillSession) -> None:
        first = await session.reset(task_id=TASK)
        assert (first.prompt or "").startswith(TASKS.by_id(TASK).problem_statement)
        names = [tool["function"]["name"] for tool in first.tools or []]
        assert sorted(names[:-1]) == sorted(tool.name for tool in TASKS.drill(TASK).tools) and names[-1] == "submit"
        assert (first.done, first.reward, first.messages) == (False, 0.0, [])

    play(script)


def test_the_registry_makes_one() -> None:
    assert isinstance(make("drill"), DrillSession)
    assert isinstance(make("drill", tasks=DrillTasks(level=1), annotate="observation"), DrillSession)


def test_status_lines_are_those_of_every_environment() -> None:
    name = TASKS.drill(TASK).solution()[0][0]
    episode = episode_of(call(name + "s"), call(name), {"tool": name, "arguments": "{"}, TALK, *solution())
    answers = contents(episode)
    assert answers[0].startswith(f"error tool_not_found: there is no tool '{name}s'; did you mean '{name}'?")
    assert answers[1].startswith(f"error invalid_args: {name} needs the argument")
    assert answers[2].startswith("error malformed_call: arguments are not valid JSON")
    assert answers[3].startswith("No tool call in this turn.")
    assert answers[4].startswith("ok\nreceipt ") and answers[5] == "ok\nsubmitted"
    kinds = [error.kind for error in episode.error_turns if error.call_index is not None]
    assert kinds == ["tool_not_found", "invalid_args", "malformed_call"]


def test_annotations_are_a_function_of_the_transcript() -> None:
    episode = episode_of(call("nothing"), *solution("drill-recover-7-l5"), task_id="drill-recover-7-l5")
    assert annotated(episode) == episode.error_turns
    injected = {f"{fault.turn}:{fault.call_index}": fault.text for fault in episode.injected}
    assert hints.annotate(hints.transcript(episode), episode.tools, injected=injected) == episode.error_turns


def test_hints_are_in_the_state_and_never_in_an_observation() -> None:
    async def script(session: DrillSession) -> None:
        await session.reset(task_id=TASK)
        observed = await session.step(call("nothing"))
        hint_texts = [hint.text for error in session.state().error_turns for hint in error.hints]
        assert hint_texts and not any(text in observed.model_dump_json() for text in hint_texts)
        assert observed.annotations is None
        await session.reset(task_id=TASK, annotate="observation")
        shown = await session.step(call("nothing"))
        assert [error.kind for error in shown.annotations or []] == ["tool_not_found"]

    play(script)


def test_calls_after_submit_are_not_run() -> None:
    turn = {"tool_calls": [{"id": "a", "name": "submit"}, {"id": "b", "name": TASKS.drill(TASK).tools[0].name}]}
    assert contents(episode_of(turn)) == ["ok\nsubmitted", NOT_RUN]


def test_episodes_end_as_all_episodes_end() -> None:
    assert episode_of(*solution()).end == "submit"
    assert episode_of(TALK, TALK).end == "no_tool_call"
    over = episode_of(call("nothing"), call("nothing"), budget=Budget(turns=2))
    assert (over.end, over.reward.value if over.reward else None) == ("budget", 0.0)
    assert contents(over)[-1] == "The episode has ended: its budget is used up."


def test_an_abandoned_episode_has_no_score() -> None:
    async def script(session: DrillSession) -> None:
        await session.reset(task_id=TASK)
        await session.close()
        state = session.state()
        assert state.end == "closed" and state.reward is not None and not state.reward.valid
        with pytest.raises(SessionError, match="closed"):
            await session.step(TALK)

    play(script)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"task_id": "drill-nothing-1"}, "unknown family"),
        ({"task_id": TASK, "tools": ["submit"]}, "leave tools out"),
        ({"split": "evil", "index": 0}, "Did you mean 'eval'"),
        ({"task_id": TASK, "split": "eval"}, "not both"),
        ({"task_id": TASK, "turn": 1}, "needs fork_of"),
        ({"fork_of": "unknown"}, "no episode 'unknown' is kept"),
        ({"task_id": TASK, "annotate": "loud"}, "annotate must be"),
        ({"task_id": TASK, "replay": [*solution(), TALK]}, "replay continues after the end"),
    ],
)
def test_a_reset_that_makes_no_sense_says_why(settings: dict[str, Any], reason: str) -> None:
    async def script(session: DrillSession) -> None:
        with pytest.raises(SessionError, match=reason):
            await session.reset(**settings)

    play(script)


def test_a_task_is_chosen_by_id_by_place_or_by_seed() -> None:
    async def script(session: DrillSession) -> list[str | None]:
        chosen = []
        for settings in ({"task_id": TASK}, {"split": "eval", "index": 3}, {"index": 0}, {"seed": 5}, {"seed": 5}):
            await session.reset(**settings)
            chosen.append(session.state().task_id)
        return chosen

    by_id, by_place, first, drawn, again = play(script)
    assert (by_id, by_place, first) == (TASK, TASKS.get_task("eval", 3).task_id, TASKS.get_task("train", 0).task_id)
    assert drawn == again


def test_a_fork_starts_in_the_state_before_a_turn() -> None:
    task_id = next(f"drill-stop-{seed}-l4" for seed in range(99) if len(solution(f"drill-stop-{seed}-l4")) > 4)
    store, (weigh, *loads, close, submit) = EpisodeStore(), solution(task_id)

    async def script(session: DrillSession) -> None:
        await session.reset(task_id=task_id)
        for action in [weigh, *loads, loads[0], close]:  # one too many
            await session.step(action)
        spoiled, other = session.state(), DrillSession(TASKS, store=store)
        first = await other.reset(fork_of=spoiled.episode_id, turn=1 + len(loads), token=spoiled.token)
        assert [message.content for message in first.messages] == contents(session.episode())[: 1 + len(loads)]
        for action in (close, submit):
            last = await other.step(action)
        assert last.reward == 1.0
        fork = other.state().fork
        assert fork is not None and (fork.episode_id, fork.turn) == (spoiled.episode_id, 1 + len(loads))

    play(script, store=store)


def test_a_replay_gives_the_same_observations() -> None:
    task_id = "drill-recover-7-l5"
    actions = solution(task_id)
    played = episode_of(*actions, task_id=task_id)

    async def script(session: DrillSession) -> None:
        first = await session.reset(task_id=task_id, replay=actions)
        assert [message.content for message in first.messages] == contents(played)
        assert (first.done, first.reward) == (True, 1.0)
        assert session.episode().error_turns == played.error_turns

    play(script)


@pytest.mark.parametrize("answer", [None, 3, ["x"], {"a": 1}])
def test_an_odd_answer_is_the_agents_mistake(answer: Any) -> None:
    episode = episode_of(call("submit", answer=answer))
    assert contents(episode)[0].startswith("ok" if answer is None else "error invalid_args: submit: answer must be")
