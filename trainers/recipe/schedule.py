"""Weight of a channel over the run, as a table of a recipe."""

from __future__ import annotations

from pydantic import Field, model_validator

from .typed_toml import Table


class Schedule(Table):
    """Weight of a channel over the run: it changes linearly from ``start`` to ``end`` between two shares of all steps.

    With ``after`` equal to ``until`` it jumps from ``start`` to ``end`` there.
    """

    start: float = Field(ge=0)
    """Weight up to the share ``after`` of all steps."""
    end: float = Field(ge=0)
    """Weight from the share ``until`` of all steps on."""
    after: float = Field(default=0.0, ge=0, le=1)
    """Share of all steps at which the weight starts to change."""
    until: float = Field(default=1.0, ge=0, le=1)
    """Share of all steps at which the weight reaches ``end``."""

    @model_validator(mode="after")
    def _check_order(self) -> Schedule:
        if self.until < self.after:
            raise ValueError(f"until ({self.until:g}) is less than after ({self.after:g}); swap them")
        return self

    def __call__(self, share: float) -> float:
        """Return the weight after this share of all steps, 0 at the start of the run and 1 at its end."""
        if self.until == self.after:
            return self.start if share < self.after else self.end
        part = min(max((share - self.after) / (self.until - self.after), 0.0), 1.0)
        return self.start + part * (self.end - self.start)

    @property
    def used(self) -> bool:
        """Return whether the weight is ever more than 0."""
        return self.start > 0 or self.end > 0
