"""TRL's ``GRPOTrainer`` with the tools of a whole batch at the same time; put the class before the trainer's.

    class Trainer(ToolsTogether, GRPOTrainer): ...

The module imports nothing of TRL. It is tested with TRL 1.16, whose private methods it extends.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .environment import PendingResult, _Environment


class ToolsTogether:
    """Three hooks into TRL's loop.

    - The tools of all samples run at the same time, and so do the grades.
    - Calls of unknown tools reach the server. TRL would answer them itself, without an error turn or a hint.
    - An episode without a valid score is left out of the baseline, whatever other reward functions return.
    """

    environments: Sequence[Any] | None
    accelerator: Any
    _async_tool_dicts: list[Any]

    def _tool_call_loop(self, *arguments: Any, **options: Any) -> Any:
        for place, environment in enumerate(self.environments or []):
            if isinstance(environment, _Environment):
                environment._together = True
                self._async_tool_dicts[place] = _AnyTool(self._async_tool_dicts[place], environment)
        return super()._tool_call_loop(*arguments, **options)  # type: ignore[misc]

    def _get_tool_suffix_ids(self, tool_messages: list[dict[str, Any]]) -> Any:
        """Wait for the pending results; all calls of all samples were started before TRL asks for any suffix."""
        for message in tool_messages:
            if isinstance(message["content"], PendingResult):
                message["content"] = message["content"].text()
        return super()._get_tool_suffix_ids(tool_messages)  # type: ignore[misc]

    def _calculate_rewards(self, inputs: Sequence[Any], *arguments: Any, **options: Any) -> Any:
        """Return [B, functions] of all ranks, each of which has equally many rows; a void episode's row is NaN.

        TRL leaves out a row that no function scored, but would take a missing part of a sum for 0.
        """
        environments = list(self.environments or [])
        etude = [environment for environment in environments if isinstance(environment, _Environment)]
        for future in [environment._sessions.submit(environment._episode.settle()) for environment in etude]:
            future.result()
        rewards = super()._calculate_rewards(inputs, *arguments, **options)  # type: ignore[misc]
        void = [
            isinstance(environment, _Environment) and environment.get_reward() is None
            for environment in environments[: len(inputs)]
        ]
        if void:
            rewards[self.accelerator.gather(rewards.new_tensor(void)) > 0] = float("nan")
        return rewards


class _AnyTool(Mapping[str, Any]):
    """An environment's tools by name; any other name is a tool too, which the server answers."""

    def __init__(self, tools: Mapping[str, Any], environment: _Environment) -> None:
        self._tools, self._environment = tools, environment

    def __getitem__(self, name: str) -> Any:
        return self._tools[name] if name in self._tools else functools.partial(_call, self._environment, name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)


async def _call(environment: _Environment, name: str, /, **arguments: Any) -> Any:
    return await environment._call(name, arguments)
