"""Batcher: which requests of many rollouts are sampled together."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from etude.trainers.rollouts.batcher import Batcher
from etude.trainers.rollouts.rollout import Sample


class Model:
    """Model that answers with the last id of the prompt and its room, and records the sizes of its batches."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def __call__(self, prompts: list[list[int]], rooms: list[int]) -> list[Sample]:
        self.sizes.append(len(prompts))
        return [Sample([ids[-1], room]) for ids, room in zip(prompts, rooms, strict=True)]


def run(model: Any, turns: list[int], **options: Any) -> list[list[Sample]]:
    """Run rollouts of these numbers of turns at the same time, and return their samples."""

    async def rollout(batcher: Batcher, number: int, count: int) -> list[Sample]:
        with batcher.playing():
            return [await batcher.sample([number, turn], 9) for turn in range(count)]

    async def play_all() -> list[list[Sample]]:
        batcher = Batcher(model, **options)
        return await asyncio.gather(*(rollout(batcher, number, count) for number, count in enumerate(turns)))

    return asyncio.run(play_all())


def test_each_rollout_gets_its_own_answer() -> None:
    answers = run(Model(), [3, 1, 2])
    assert [[sample.ids for sample in samples] for samples in answers] == [
        [[0, 9], [1, 9], [2, 9]],
        [[0, 9]],
        [[0, 9], [1, 9]],
    ]


def test_batch_has_one_turn_of_every_unfinished_rollout() -> None:
    model = Model()
    run(model, [3, 1, 2])
    assert model.sizes == [3, 2, 1]


def test_batch_has_at_most_the_largest_size() -> None:
    model = Model()
    run(model, [2] * 7, largest=3)
    assert max(model.sizes) <= 3
    assert sum(model.sizes) == 14


def test_error_of_the_model_is_raised_in_every_rollout_of_the_batch() -> None:
    def broken(prompts: list[list[int]], rooms: list[int]) -> list[Sample]:
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        run(broken, [1, 1])


def test_batch_does_not_wait_for_a_rollout_that_failed() -> None:
    async def play() -> Sample:
        batcher = Batcher(Model())
        started = asyncio.Event()

        async def fail() -> None:
            with batcher.playing():
                started.set()
                await asyncio.sleep(0)
                raise ValueError("failed")

        async def succeed() -> Sample:
            with batcher.playing():
                await started.wait()
                return await batcher.sample([1], 2)

        error, sample = await asyncio.gather(fail(), succeed(), return_exceptions=True)
        assert isinstance(error, ValueError)
        assert isinstance(sample, Sample)
        return sample

    assert asyncio.run(play()).ids == [1, 2]


def recording(batches: list[list[list[int]]]) -> Batcher:
    """Return a batcher that adds the prompts of each batch to ``batches``."""

    def generate(prompts: list[list[int]], rooms: list[int]) -> list[Sample]:
        batches.append(prompts)
        return [Sample([1]) for _ in prompts]

    return Batcher(generate)


def test_turn_of_a_cancelled_rollout_is_not_sampled() -> None:
    batches: list[list[list[int]]] = []

    async def play() -> None:
        batcher, cancelled = recording(batches), asyncio.Event()

        async def play_one(number: int) -> None:
            with batcher.playing():
                if number:
                    await cancelled.wait()
                await batcher.sample([number], 1)

        first, second = (asyncio.ensure_future(play_one(number)) for number in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        cancelled.set()
        await second

    asyncio.run(play())
    assert batches == [[[1]]]


def test_paused_rollout_is_not_waited_for_and_keeps_its_place() -> None:
    batches: list[list[list[int]]] = []

    async def play() -> None:
        batcher, done = recording(batches), asyncio.Event()

        async def pause_first() -> None:
            with batcher.playing():
                with batcher.paused():
                    await done.wait()
                await batcher.sample([0], 1)

        async def play_on() -> None:
            with batcher.playing():
                await batcher.sample([1], 1)
                done.set()
                await batcher.sample([2], 1)

        await asyncio.gather(pause_first(), play_on())

    asyncio.run(play())
    assert batches == [[[1]], [[0], [2]]]
