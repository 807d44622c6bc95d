"""What TRL's GRPOTrainer lacks for our environments, in three hooks; put it before the trainer's class.

    class Trainer(ToolsTogether, GRPOTrainer): ...

It imports nothing of TRL and is tested with 1.16, whose private methods it extends.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .environment import Later, _Environment


class ToolsTogether:
    """Tools of all samples run at the same time, and so do the grades; calls of unknown tools reach the server; an
    episode without an honest score is out of the baseline, whatever other reward functions say.

    Left to itself TRL answers an unknown name, and the environment never hears of it: no error turn, no hint.
    """

    environments: Sequence[Any] | None
    accelerator: Any
    _async_tool_dicts: list[Any]

    def _tool_call_loop(self, *arguments: Any, **more: Any) -> Any:
        ours = list(self.environments or [])
        for place, environment in enumerate(ours):
            if isinstance(environment, _Environment):
                environment._together = True
                self._async_tool_dicts[place] = _AnyTool(self._async_tool_dicts[place], environment)
        return super()._tool_call_loop(*arguments, **more)  # type: ignore[misc]

    def _get_tool_suffix_ids(self, tool_messages: list[dict[str, Any]]) -> Any:
        """All calls of all samples have been started when TRL asks for the first of these."""
        for message in tool_messages:
            if isinstance(message["content"], Later):
                message["content"] = message["content"].text()
        return super()._get_tool_suffix_ids(tool_messages)  # type: ignore[misc]

    def _calculate_rewards(self, inputs: Sequence[Any], *arguments: Any, **more: Any) -> Any:
        """[B, functions] of all ranks, each of which has as many rows. A void episode has no reward at all: TRL leaves
        out what no function scored, and would take an unknown part of a sum for 0."""
        every = list(self.environments or [])
        ours = [each for each in every if isinstance(each, _Environment)]
        for future in [each._sessions.submit(each._episode.settle()) for each in ours]:
            future.result()
        found = super()._calculate_rewards(inputs, *arguments, **more)  # type: ignore[misc]
        void = [isinstance(each, _Environment) and each.get_reward() is None for each in every[: len(inputs)]]
        if void:
            found[self.accelerator.gather(found.new_tensor(void)) > 0] = float("nan")
        return found


class _AnyTool(Mapping[str, Any]):
    """An environment's tools, and every other name too, which the server answers."""

    def __init__(self, known: Mapping[str, Any], environment: _Environment) -> None:
        self._known, self._environment = known, environment

    def __getitem__(self, name: str) -> Any:
        return self._known[name] if name in self._known else functools.partial(_called, self._environment, name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str)

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


async def _called(environment: _Environment, name: str, /, **arguments: Any) -> Any:
    return await environment._call(name, arguments)
