"""TRL's rollout worker in this process, without the process that it would spawn and without vLLM."""

from __future__ import annotations

import asyncio
import functools
import multiprocessing
import queue
import threading
from collections.abc import Callable
from typing import Any

from datasets import Dataset
from helpers.completions_engine import END
from helpers.tokenizer_factory import tokenizer
from openenv.core.harness import MCPHarnessAdapter

from etude.trainers.integrations.harness import EtudeSessionFactory, harness_rows


class Worker:
    """Loop of HarnessRolloutWorker, or of another ``kind`` with arguments ``others``.

    ``turn``, if given, replaces vLLM: it returns the words that follow a text.
    """

    def __init__(self, turn: Callable[[str], str] | None = None, kind: Any = None, **others: Any) -> None:
        from accelerate.state import PartialState
        from trl.experimental.async_grpo.openenv_harness import _HarnessRolloutLoop

        PartialState()  # TRL's logger needs it
        self.words = tokenizer("qwen3-2507")  # its template preserves prefixes: one row per episode
        self.metrics: Any = queue.Queue()
        self.loop = (kind or _HarnessRolloutLoop)(
            **others,
            model_name="none",
            reward_funcs=[],
            processing_class=self.words,
            eos_token_ids=[self.words.eos_token_id],
            rollout_buffer=queue.Queue(),
            model_version_value=multiprocessing.Value("i", 0),
            heartbeat_value=multiprocessing.Value("d", 0.0),
            failed_event=threading.Event(),
            exception_info_queue=queue.Queue(),
            metrics_queue=self.metrics,
            num_generations=4,
            max_inflight_tasks=4,
            max_tokens=256,
        )
        if turn is not None:
            self.turn = turn
            self.loop._generate_one_turn = self.sample

    async def sample(self, prompt_ids: list[int]) -> tuple[list[int], list[float]]:
        text = self.words.decode(prompt_ids)
        ids = self.words.encode(self.turn(text) + END, add_special_tokens=False)
        return ids, [-0.25] * len(ids)

    def group(self) -> list[Any]:
        """Run TRL's own generate and score loops until one group is scored, and return its samples."""

        async def until_scored() -> list[Any]:
            stop = asyncio.Event()
            running = [asyncio.create_task(loop(stop)) for loop in (self.loop._generate_loop, self.loop._score_loop)]
            while not self.loop._total_groups_scored:
                await asyncio.sleep(0.01)
                for task in running:
                    if task.done():
                        task.result()
            stop.set()
            await asyncio.gather(*running)
            samples = []
            while not self.loop.rollout_buffer.empty():
                samples.append(self.loop.rollout_buffer.get_nowait())
            return [sample for sample in samples if sample.group_id == 0]  # the next groups are incomplete

        asyncio.set_event_loop(self.loop._loop)
        return list(self.loop._loop.run_until_complete(until_scored()))


def white_box(url: str, task_id: str) -> dict[str, Any]:
    """Return arguments for a worker that samples the turns itself, where each call is a turn."""
    return {
        "harness_session_factory": functools.partial(EtudeSessionFactory, url),
        "harness_adapter": MCPHarnessAdapter(),
        "dataset": Dataset.from_list(harness_rows([{"task_id": task_id}])),
    }
