"""Sessions that play whole episodes of served drills, with a scripted engine as their policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from helpers.completions_engine import Answer, Engine, number, say, serving
from helpers.scripted_policy import TASKS
from helpers.tokenizer_factory import tokenizer
from openenv.core.harness import TrainingTrace

from etude.trainers.integrations.async_grpo import OwnedSession, OwnedSessionFactory

TASK = TASKS.list_tasks("train")[0].task_id
WORDS = tokenizer("qwen3-2507")
NOWHERE = "http://127.0.0.1:9"


def solution() -> list[str]:
    drill = TASKS.drill(TASK)
    return [say(name, arguments) for name, arguments in [*drill.solution(), ("submit", {"answer": drill.answer})]]


def script(*turns: str) -> Callable[[str], str]:
    """Return a policy that writes these turns in order, then words alone."""
    return lambda text: turns[number(text)] if number(text) < len(turns) else "Done."


def turn_texts(trace: TrainingTrace) -> list[str]:
    return [WORDS.decode(turn.completion_token_ids) for turn in trace.turns]


class World:
    """Factories of sessions over the drills and over an engine that a test scripts."""

    def __init__(self, url: str, tokenizer_folder: str) -> None:
        self.url, self.tokenizer_folder = url, tokenizer_folder
        self.factories: list[OwnedSessionFactory] = []

    def factory(self, engine: Engine | None = None, **options: Any) -> OwnedSessionFactory:
        arguments = {
            "policy_url": engine.url if engine else NOWHERE,
            "model": "served",
            "tokenizer": self.tokenizer_folder,
            **options,
        }
        self.factories.append(OwnedSessionFactory(self.url, **arguments))
        return self.factories[-1]

    def play(self, answer: Answer, **options: Any) -> tuple[OwnedSession, TrainingTrace, Engine]:
        with serving(answer) as engine:
            session = self.factory(engine, **options).create({"task_id": TASK}, seed=0, episode_id="e")
            session.wait_for_completion()
            return session, session.fetch_training_trace(), engine
