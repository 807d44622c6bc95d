"""Who teaches: the policy's own earlier weights, with the hint that the policy does not see.

A teacher that moves with its student may follow it anywhere: in our measurements a live one always collapsed, and an
average of 5 % a step did after it had taught well, while the authors of SDPO report gains from them. Frozen is the
default; every other kind is watched by ``drift``.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import torch

from ...errors import UnknownName
from ...registry import did_you_mean
from ..rollouts.rollout import Rollout
from .distill_sites import Site
from .divergence import Head, fused_divergence
from .hidden_states import head_of, teacher_rows

Kind = Literal["frozen", "periodic", "trust_region", "ema", "live"]
KINDS: tuple[Kind, ...] = ("frozen", "periodic", "trust_region", "ema", "live")


class Teacher:
    """``every``: steps between refreshes (periodic). ``rate``: how much of the student comes in, at each step (ema) or
    once into the first weights (trust_region: first + rate x (student - first)). Raises UnknownName.

    Averages are made in float32 or finer: in bfloat16 a part of a thousandth is rounded away. Of a student in less, the
    average is kept apart, and the model that teaches is rounded from it.
    """

    def __init__(self, kind: str = "frozen", *, every: int = 100, rate: float = 0.001) -> None:
        if kind not in KINDS:
            raise UnknownName(did_you_mean("teacher", kind, list(KINDS)))
        self.kind, self.every, self.rate = kind, every, rate
        self._copy: Any = None
        self._first: dict[str, torch.Tensor] = {}
        self._average: dict[str, torch.Tensor] = {}

    def start(self, student: Any) -> None:
        """Remember the weights as they are now."""
        if self.kind == "live":
            return
        self._copy = copy.deepcopy(student).eval().requires_grad_(False)
        if self.kind == "trust_region":
            self._first = {name: value.clone() for name, value in self._copy.named_parameters()}
        if self.kind == "ema":
            self._average = _finer(self._copy)

    def model(self, student: Any) -> Any:
        """The model that teaches now, on the student's device, where it then stays. It is started by the first call,
        unless ``start`` was called."""
        if self.kind == "live":
            return student
        if self._copy is None:
            self.start(student)
        device = _device(student)
        if _device(self._copy) != device:
            self._copy.to(device)
            self._first = {name: value.to(device) for name, value in self._first.items()}
            self._average = {name: value.to(device) for name, value in self._average.items()}
        return self._copy

    @torch.no_grad()
    def step(self, student: Any, number: int) -> None:
        """After optimizer step ``number``, counted from 1."""
        if self.kind in ("frozen", "live"):
            return
        mine: dict[str, Any] = dict(self.model(student).named_parameters())
        if self.kind == "periodic":
            if number % self.every == 0:
                for name, value in student.named_parameters():
                    mine[name].copy_(value)
            return
        for name, value in student.named_parameters():
            kept = self._average.get(name, mine[name])
            base = self._first[name] if self.kind == "trust_region" else kept
            finer = torch.promote_types(base.dtype, torch.float32)
            kept.copy_(torch.lerp(base.to(finer), value.to(finer), self.rate))
            if kept is not mine[name]:
                mine[name].copy_(kept)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint must hold for a resumed run to be taught the same."""
        if self._copy is None:
            return {}
        return {"copy": self._copy.state_dict(), "first": self._first, "average": self._average}

    def load_state_dict(self, state: dict[str, Any], student: Any) -> None:
        """An average that an earlier version did not keep apart goes on from the rounded one."""
        if state:
            self.start(student)
            self._copy.load_state_dict(state["copy"])
            device, average = _device(student), state.get("average") or {}
            self._first = {name: value.to(device) for name, value in state["first"].items()}
            self._average = {name: value.to(device) for name, value in average.items()}
            if self.kind == "ema":
                self._average = _finer(self._copy) | self._average


class Drift:
    """How far a teacher has gone from its first self on a few sites that are held for this, in nats a token.

    Of the first self, hidden states [R, H] and the head [V, H] are held, on the CPU, and no logits [R, V]. A pickle
    that holds those, of an earlier version, raises KeyError when it is read.
    """

    def __init__(self, probe: Sequence[tuple[Rollout, Sequence[Site]]]) -> None:
        self._probe = [(rollout, sites) for rollout, sites in probe if sites]
        self._rows: list[torch.Tensor] = []
        self._head: Head | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        """``torch.load`` puts tensors where it was told to."""
        self._probe = state["_probe"]
        self._rows = [rows.cpu() for rows in state["_rows"]]
        self._head = None if state["_head"] is None else _at(state["_head"], torch.device("cpu"))

    @torch.no_grad()
    def measure(self, teacher: Any) -> float:
        """The mean Jensen-Shannon divergence from the first measurement; 0 at that one, at most log 2."""
        head = head_of(teacher)
        now = [teacher_rows(teacher, r.ids, sites, packed=False) for r, sites in self._probe]
        if self._head is None:
            self._rows, self._head = [rows.cpu() for rows in now], _at(head, torch.device("cpu"), copy=True)
            return 0.0
        first = _at(self._head, head.weight.device)
        each = [
            fused_divergence(rows, head, held.to(rows.device), first)
            for rows, held in zip(now, self._rows, strict=True)
        ]
        return float(torch.cat(each).mean()) if each else 0.0


def _finer(model: Any) -> dict[str, torch.Tensor]:
    """In float32, the parameters that are not so fine."""
    return {name: value.float() for name, value in model.named_parameters() if value.dtype.itemsize < 4}


def _device(model: Any) -> torch.device:
    found: torch.device = next(model.parameters()).device
    return found


def _at(head: Head, device: torch.device, *, copy: bool = False) -> Head:
    """``copy``: of its own also there, for a head that moves."""
    bias = None if head.bias is None else head.bias.detach().to(device, copy=copy)
    return replace(head, weight=head.weight.detach().to(device, copy=copy), bias=bias)
