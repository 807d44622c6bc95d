"""Batcher: which requests of many rollouts are sampled together."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import pytest

from etude.trainers.rollouts.batcher import LEAST_WAIT_S, Batcher
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


# --- free-running -----------------------------------------------------------------------------------------------

BATCH_S = 0.02
"""Seconds that the sampler takes for a batch of any size."""


def play_with_tools(
    tool_s: Any, rollouts: int = 8, turns: int = 8, *, batch_s: float = 0.0, **options: Any
) -> tuple[float, list[list[list[int]]], list[list[int]]]:
    """Play rollouts whose tools take ``tool_s(rollout, turn)`` seconds after each turn.

    Return the seconds, the prompts of each batch and the samples of each rollout.
    """
    batches: list[list[list[int]]] = []

    def generate(prompts: list[list[int]], rooms: list[int]) -> list[Sample]:
        time.sleep(batch_s)
        batches.append(prompts)
        return [Sample([sum(ids)]) for ids in prompts]

    async def play_all() -> list[list[int]]:
        batcher = Batcher(generate, **options)

        async def play_one(number: int) -> list[int]:
            with batcher.playing():
                sampled = []
                for turn in range(turns):
                    sampled += (await batcher.sample([number, turn], 1)).ids
                    await asyncio.sleep(tool_s(number, turn))
                return sampled

        return await asyncio.gather(*(play_one(number) for number in range(rollouts)))

    start = time.monotonic()
    samples = asyncio.run(play_all())
    return time.monotonic() - start, batches, samples


def heavy_tailed(number: int, turn: int) -> float:
    """Return a tool's duration: short, or now and then, for another rollout at every turn, long."""
    return 0.4 if random.Random(f"{number} {turn}").random() < 0.12 else 0.01


def test_free_running_is_faster_than_lockstep_when_some_tools_are_slow() -> None:
    lockstep, rounds, same = play_with_tools(heavy_tailed, batch_s=BATCH_S)
    free, batches, samples = play_with_tools(heavy_tailed, batch_s=BATCH_S, patience=1.0)
    assert samples == same and sum(map(len, batches)) == sum(map(len, rounds)) == 64
    assert len(rounds) == 8 and all(len(batch) == 8 for batch in rounds)
    assert lockstep > 1.4 * free


def test_free_running_samples_together_what_asks_together() -> None:
    _, batches, _ = play_with_tools(lambda number, turn: 0.0, patience=1.0)
    assert [len(batch) for batch in batches] == [8] * 8


def test_batches_of_lockstep_do_not_depend_on_the_speed_of_tools() -> None:
    drawn = random.Random(1)
    _, slow, _ = play_with_tools(lambda number, turn: drawn.random() / 50, turns=3)
    _, fast, _ = play_with_tools(lambda number, turn: 0.0, turns=3)
    assert slow == fast


def test_slow_tool_makes_no_batch_wait_longer_than_the_patience() -> None:
    """One rollout's tool takes 30 batches; the others finish before it."""
    _, batches, _ = play_with_tools(lambda number, turn: 0.6 if not number else 0.0, 4, 3, batch_s=BATCH_S, patience=1)
    alone = [number for number, batch in enumerate(batches) if [0, 1] in batch]
    others = [number for number, batch in enumerate(batches) if any(ids[0] and ids[1] == 2 for ids in batch)]
    assert alone == [len(batches) - 2] and max(others) < alone[0]


def test_cancelled_request_is_not_sampled_when_its_patience_ends() -> None:
    batches: list[list[list[int]]] = []

    async def play() -> None:
        batcher = Batcher(lambda prompts, rooms: batches.append(prompts) or [Sample([1]) for _ in prompts], patience=1)

        async def ask() -> None:
            with batcher.playing():
                await batcher.sample([1], 1)

        with batcher.playing():
            asking = asyncio.ensure_future(ask())
            await asyncio.sleep(0)
            asking.cancel()
            await asyncio.wait([asking])
            await asyncio.sleep(3 * LEAST_WAIT_S)

    asyncio.run(play())
    assert batches == []
