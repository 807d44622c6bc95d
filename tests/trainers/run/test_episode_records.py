"""Episodes of a training run: rows that every reader of runs reads, once for each batch, with their step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from helpers.made_up_rollouts import made_up

from etude.environments.runs.reader import read_run
from etude.models import ErrorTurn
from etude.trainers.rollouts.rollout import Rollout
from etude.trainers.run.episode_records import EpisodeRecords, spread

CALL = {"id": "c", "name": "say", "arguments": '{"text": "x"}'}


def state(step: int, first: bool = True) -> Any:
    return SimpleNamespace(global_step=step, is_world_process_zero=first)


def batch(step: int, size: int = 3) -> list[tuple[Rollout, list[Any]]]:
    messages = [
        {"role": "system", "content": "Play well."},
        {"role": "user", "content": "Say x."},
        {"role": "assistant", "text": "half \ud800", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c", "name": "say", "content": "ok\nx"},
    ]
    error = ErrorTurn(turn=0, kind="style")
    made = [made_up(0.5, f"task-{number}") for number in range(size)]
    return [
        (replace(one, episode_id=f"{step}-{n}", messages=messages, error_turns=[error]), [])
        for n, one in enumerate(made)
    ]


def played(records: EpisodeRecords, *steps: int) -> None:
    for step in steps:
        records.on_step_end(None, state(step), None)


def test_records_are_the_episodes_of_each_batch_with_its_step(tmp_path: Path) -> None:
    batches = iter([batch(1), batch(2)])
    played(EpisodeRecords(tmp_path, lambda: next(batches), 2), 1, 2)
    stored = list(read_run(tmp_path))
    assert [(one.settings["step"], one.episode.episode_id) for one in stored] == [
        (1, "1-0"),
        (1, "1-1"),
        (2, "2-0"),
        (2, "2-1"),
    ]
    episode = stored[0].episode
    assert (episode.prompt, episode.turns[0].messages[0].content) == ("Say x.", "ok\nx")
    assert episode.turns[0].action == {"text": "half ?", "tool_calls": [CALL]}
    assert episode.error_turns[0].kind == "style" and stored[0].agent == "policy" and stored[0].valid


def test_records_hold_how_far_the_teacher_is_at_each_turn_where_it_was_measured(tmp_path: Path) -> None:
    measured = {"1-0": {2: 0.25, 0: 0.12345678}, "1-9": {0: 1.0}}
    EpisodeRecords(tmp_path, lambda: batch(1), 2, lambda: measured).on_step_end(None, state(1), None)
    first, second = read_run(tmp_path)
    assert first.settings == {"step": 1, "divergence": {"0": 0.123457, "2": 0.25}}
    assert second.settings == {"step": 1}


def test_records_hold_a_batch_once_when_several_steps_learn_from_it(tmp_path: Path) -> None:
    same = batch(1)
    played(EpisodeRecords(tmp_path, lambda: same, 2), 1, 2, 3)
    assert [one.settings["step"] for one in read_run(tmp_path)] == [1, 1]


def test_records_of_steps_that_a_resumed_run_repeats_are_removed(tmp_path: Path) -> None:
    batches = iter([batch(step) for step in (1, 2, 3, 3)])
    records = EpisodeRecords(tmp_path, lambda: next(batches), 1)
    played(records, 1, 2, 3)
    with records.path.open("a") as file:
        file.write('{"agent": "pol')
    records.on_train_begin(None, state(2), None)
    assert [one.settings["step"] for one in read_run(tmp_path)] == [1, 2]
    played(records, 3)
    assert [one.settings["step"] for one in read_run(tmp_path)] == [1, 2, 3]


def test_only_the_first_rank_records(tmp_path: Path) -> None:
    EpisodeRecords(tmp_path, lambda: batch(1), 1).on_step_end(None, state(1, first=False), None)
    assert not list(tmp_path.iterdir())


def test_spread_takes_rollouts_at_equal_distances() -> None:
    rollouts = [rollout for rollout, _ in batch(1, size=8)]
    assert [one.episode_id for one in spread(rollouts, 3)] == ["1-0", "1-2", "1-5"]
    assert spread(rollouts, 20) == rollouts
