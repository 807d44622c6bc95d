"""Agents: the registry, the protocol, and how one is made for a task.

``scripted`` holds the oracle, the noop and the cheater, ``erring`` and ``calibrated`` hold agents whose mistakes are
known in advance, ``openai`` holds models behind an endpoint.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from ...errors import LLMError, UnknownName
from ...llm import LLM
from ...models import Task
from ...registry import Registry
from ..actions import Action

AGENTS = Registry(
    "agent",
    "etude.agents",
    {
        "oracle": ".environments.agents.scripted:oracle",
        "noop": ".environments.agents.scripted:noop",
        "cheater": ".environments.agents.scripted:cheater",
        "stumbler": ".environments.agents.erring:stumbler",
        "noisy": ".environments.agents.calibrated:noisy",
        "openai": ".environments.agents.openai:openai",
    },
)


class Agent(Protocol):
    """The player of an episode."""

    def act(self, observation: Mapping[str, Any]) -> Action | None | Awaitable[Action | None]:
        """Return the next action, at once or to be awaited; None gives up."""
        ...


async def next_move(agent: Agent, observation: Mapping[str, Any]) -> Action | None:
    """Return the agent's next action, and wait for it when the agent is asynchronous."""
    move = agent.act(observation)
    return await move if inspect.isawaitable(move) else move


def make(
    name: str, task: Task, *, llm: LLM | None = None, tool_format: str = "native", seed: int | None = None
) -> Agent:
    """Return the agent ``name`` (``name:variant``) for one task.

    ``llm`` and ``tool_format`` are for an agent that asks a model, ``seed`` is for one that draws random numbers.
    Raises UnknownName, which offers the nearest name, and LLMError when a model is needed and not given.
    """
    base, _, variant = name.partition(":")
    factory: Callable[..., Agent] = AGENTS.load(base)
    parameters = inspect.signature(factory).parameters.values()
    if variant and sum(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters) < 2:
        raise UnknownName(f"the agent {base} has no variants: leave out ':{variant}'")
    options: dict[str, Any] = {}
    if asks_model(base):
        if llm is None:
            raise LLMError(f"the agent {name} asks a model: play it with `etude run`")
        options = {"llm": llm, "tool_format": tool_format}
    if seed is not None and any(parameter.name == "seed" for parameter in parameters):
        options["seed"] = seed
    return factory(task, variant, **options) if variant else factory(task, **options)


def asks_model(name: str) -> bool:
    """Return whether the agent asks a model, which its factory then takes as ``llm``. Raises UnknownName."""
    return "llm" in inspect.signature(AGENTS.load(name.partition(":")[0])).parameters
