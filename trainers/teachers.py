"""Who teaches: the policy's own earlier weights, with the hint that the policy does not see.

A teacher that moves with its student may follow it anywhere: in our measurements a live one always collapsed, and an
average of 5 % a step did after it had taught well, while the authors of SDPO report gains from them. Frozen is the
default; every other kind is watched by ``drift``.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Literal

import torch

from ..registry import UnknownName, did_you_mean
from .divergence import divergence
from .forwards import head_of, teacher_rows
from .rollouts import Rollout
from .sites import Site

Kind = Literal["frozen", "periodic", "trust_region", "ema", "live"]
KINDS: tuple[Kind, ...] = ("frozen", "periodic", "trust_region", "ema", "live")


class Teacher:
    """``every``: steps between refreshes (periodic). ``rate``: how much of the student comes in, at each step (ema) or
    once into the first weights (trust_region: first + rate x (student - first)). Raises UnknownName.
    """

    def __init__(self, kind: str = "frozen", *, every: int = 100, rate: float = 0.001) -> None:
        if kind not in KINDS:
            raise UnknownName(did_you_mean("teacher", kind, list(KINDS)))
        self.kind, self.every, self.rate = kind, every, rate
        self._copy: Any = None
        self._first: dict[str, torch.Tensor] = {}

    def start(self, student: Any) -> None:
        """Remember the weights as they are now."""
        if self.kind == "live":
            return
        self._copy = copy.deepcopy(student).eval().requires_grad_(False)
        if self.kind == "trust_region":
            self._first = {name: value.clone() for name, value in self._copy.named_parameters()}

    def model(self, student: Any) -> Any:
        """The model that teaches now. It is started by the first call, unless ``start`` was called."""
        if self.kind == "live":
            return student
        if self._copy is None:
            self.start(student)
        return self._copy

    @torch.no_grad()
    def step(self, student: Any, number: int) -> None:
        """After optimizer step ``number``, counted from 1."""
        if self.kind in ("frozen", "live"):
            return
        mine = dict(self.model(student).named_parameters())
        if self.kind == "periodic":
            if number % self.every == 0:
                for name, value in student.named_parameters():
                    mine[name].copy_(value)
            return
        for name, value in student.named_parameters():
            base = self._first[name] if self.kind == "trust_region" else mine[name]
            mine[name].copy_(torch.lerp(base, value.to(base), self.rate))

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint must hold for a resumed run to be taught the same."""
        return {} if self._copy is None else {"copy": self._copy.state_dict(), "first": self._first}

    def load_state_dict(self, state: dict[str, Any], student: Any) -> None:
        if state:
            self.start(student)
            self._copy.load_state_dict(state["copy"])
            self._first = state["first"]


class Drift:
    """How far a teacher has gone from its first self on a few sites that are held for this, in nats a token."""

    def __init__(self, probe: Sequence[tuple[Rollout, Sequence[Site]]]) -> None:
        self._probe = [(rollout, sites) for rollout, sites in probe if sites]
        self._first: list[torch.Tensor] = []

    @torch.no_grad()
    def measure(self, teacher: Any) -> float:
        """The mean Jensen-Shannon divergence from the first measurement; 0 at that one, at most log 2."""
        head = head_of(teacher)
        now = [head.logits(teacher_rows(teacher, r.ids, sites, packed=False)) for r, sites in self._probe]
        if not self._first:
            self._first = now
        each = [divergence(logits, first) for logits, first in zip(now, self._first, strict=True)]
        return float(torch.cat(each).mean()) if each else 0.0
