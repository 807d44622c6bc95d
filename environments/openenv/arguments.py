"""What ``reset`` takes, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...errors import SessionError
from ...registry import did_you_mean
from ..wire_values import plain


class ResetArguments(BaseModel):
    """What ``reset`` takes; a task is chosen by ``task_id``, or by ``split`` and ``index``, or is that of ``fork_of``.

    ``token`` is that of the session that played ``fork_of``; nobody forks, and so reads, an episode without it.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    seed: int | None = None
    episode_id: str | None = Field(default=None, min_length=1, max_length=255)
    task_id: str | None = None
    split: str | None = None
    index: int | None = None
    replay: list[dict[str, Any]] | None = None
    fork_of: str | None = None
    turn: int | None = None
    token: str | None = None
    annotate: str | None = None
    tools: list[str] | None = None
    faults: str | None = None


def reset_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that were given, checked. Raises SessionError that names the first wrong one."""
    for name in given:
        if name not in ResetArguments.model_fields:
            raise SessionError(f"reset: {did_you_mean('argument', name, ResetArguments.model_fields)}")
    try:
        checked = ResetArguments.model_validate(plain(dict(given)))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise SessionError(f"reset: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    return checked.model_dump(exclude_none=True)
