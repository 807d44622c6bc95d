"""Requests of many rollouts, in batches."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from etude.trainers.rollouts.batcher import Batcher
from etude.trainers.rollouts.rollout import Sample


class Model:
    """Answers with the last id of the prompt and its room; remembers the sizes of its batches."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def __call__(self, prompts: list[list[int]], rooms: list[int]) -> list[Sample]:
        self.sizes.append(len(prompts))
        return [Sample([ids[-1], room]) for ids, room in zip(prompts, rooms, strict=True)]


def run(model: Any, turns: list[int], **options: Any) -> list[list[Sample]]:
    """Rollouts of so many turns each, at the same time."""

    async def rollout(batcher: Batcher, number: int, count: int) -> list[Sample]:
        with batcher.playing():
            return [await batcher.sample([number, turn], 9) for turn in range(count)]

    async def all_of_them() -> list[list[Sample]]:
        batcher = Batcher(model, **options)
        return await asyncio.gather(*(rollout(batcher, number, count) for number, count in enumerate(turns)))

    return asyncio.run(all_of_them())


def test_everyone_gets_their_own_answer() -> None:
    answers = run(Model(), [3, 1, 2])
    assert [[sample.ids for sample in each] for each in answers] == [
        [[0, 9], [1, 9], [2, 9]],
        [[0, 9]],
        [[0, 9], [1, 9]],
    ]


def test_a_turn_of_all_rollouts_is_one_batch_and_the_last_one_is_not_waited_for() -> None:
    model = Model()
    run(model, [3, 1, 2])
    assert model.sizes == [3, 2, 1]


def test_no_batch_is_larger_than_allowed() -> None:
    model = Model()
    run(model, [2] * 7, largest=3)
    assert max(model.sizes) <= 3
    assert sum(model.sizes) == 14


def test_a_model_that_fails_fails_every_rollout_of_its_batch() -> None:
    def broken(prompts: list[list[int]], rooms: list[int]) -> list[Sample]:
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        run(broken, [1, 1])


def test_a_rollout_that_dies_is_not_waited_for() -> None:
    async def play() -> Sample:
        batcher = Batcher(Model())
        started = asyncio.Event()

        async def dies() -> None:
            with batcher.playing():
                started.set()
                await asyncio.sleep(0)
                raise ValueError("gone")

        async def lives() -> Sample:
            with batcher.playing():
                await started.wait()
                return await batcher.sample([1], 2)

        dead, alive = await asyncio.gather(dies(), lives(), return_exceptions=True)
        assert isinstance(dead, ValueError)
        assert isinstance(alive, Sample)
        return alive

    assert asyncio.run(play()).ids == [1, 2]


def test_a_turn_that_nobody_waits_for_any_more_is_not_sampled() -> None:
    asked: list[list[list[int]]] = []

    def generate(prompts: list[list[int]], rooms: list[int]) -> list[Sample]:
        asked.append(prompts)
        return [Sample([1]) for _ in prompts]

    async def play() -> None:
        batcher, going_on = Batcher(generate), asyncio.Event()

        async def plays(number: int) -> None:
            with batcher.playing():
                if number:
                    await going_on.wait()
                await batcher.sample([number], 1)

        first, second = (asyncio.ensure_future(plays(number)) for number in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        going_on.set()
        await second

    asyncio.run(play())
    assert asked == [[[1]]]


def test_a_rollout_that_stands_aside_is_not_waited_for_and_keeps_its_place() -> None:
    prompts: list[list[list[int]]] = []

    def generate(asked: list[list[int]], rooms: list[int]) -> list[Sample]:
        prompts.append(asked)
        return [Sample([1]) for _ in asked]

    async def play() -> None:
        batcher, done = Batcher(generate), asyncio.Event()

        async def stands_aside() -> None:
            with batcher.playing():
                with batcher.aside():
                    await done.wait()
                await batcher.sample([0], 1)

        async def plays() -> None:
            with batcher.playing():
                await batcher.sample([1], 1)
                done.set()
                await batcher.sample([2], 1)

        await asyncio.gather(stands_aside(), plays())

    asyncio.run(play())
    assert prompts == [[[1]], [[0], [2]]]
