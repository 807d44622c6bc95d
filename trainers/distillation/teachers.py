"""Teachers: the policy's own weights, current or earlier, with the hint that the policy does not see.

A teacher that moves with its student may follow it anywhere. In our measurements a live teacher always collapsed, and
an average of 5 % a step collapsed after it had taught well, while the authors of SDPO report gains from them. Frozen is
the default; ``Drift`` measures how far any other kind has moved.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import torch
from torch.distributed.tensor import DTensor, distribute_tensor

from ...errors import RecipeError, UnknownName
from ...registry import did_you_mean
from ..rollouts.rollout import Rollout
from ..sharded.access import own_part, reshard
from .distill_sites import Site
from .divergence import Head, fused_divergence
from .hidden_states import head_of, teacher_rows

Kind = Literal["frozen", "periodic", "trust_region", "ema", "live"]
KINDS: tuple[Kind, ...] = ("frozen", "periodic", "trust_region", "ema", "live")


class Teacher:
    """Teacher of one of five kinds.

    ============  ====================================================================================================
    kind          weights
    ============  ====================================================================================================
    frozen        the policy's first weights
    periodic      the policy's weights, copied every ``every`` steps
    trust_region  first + ``rate`` x (policy - first)
    ema           an average of the policy's weights, into which each step enters with the share ``rate``
    live          the policy's current weights
    ============  ====================================================================================================

    Averages are computed in float32 or finer, because bfloat16 rounds a thousandth of a weight away. For a policy in a
    coarser type, the average is stored separately, and the teaching model is rounded from it. Raise UnknownName.

    ``source`` returns a model with the student's first weights; without it they are copied, except those that the
    student never changes, which both share. If the student's weights are divided over ranks, it must divide them alike.

    ``trust_region`` interpolates weights, and is not the trust-region teacher of SDPO (arXiv:2601.20802), which
    interpolates logits: (1 - ``rate``) x first logits + ``rate`` x current logits, the geometric mean of two
    distributions, at the price of two forward passes. Both agree to first order in the change of the weights. Further
    away they differ: a model with averaged weights need not lie between the two models, and no bound of SDPO holds for
    it. What the paper reports about its trust region is therefore no evidence about this one.
    """

    def __init__(
        self,
        kind: str = "frozen",
        *,
        every: int = 100,
        rate: float = 0.001,
        source: Callable[[Any], Any] | None = None,
    ) -> None:
        if kind not in KINDS:
            raise UnknownName(did_you_mean("teacher", kind, list(KINDS)))
        self.kind, self.every, self.rate, self.source = kind, every, rate, source or _copy_of
        self._copy: Any = None
        self._first: dict[str, torch.Tensor] = {}
        self._average: dict[str, torch.Tensor] = {}
        self._fingerprint = ""

    def start(self, student: Any) -> None:
        """Take the student's current weights as the first weights."""
        if self.kind == "live":
            return
        self._copy = self.source(student)
        if self.kind == "frozen":
            self._fingerprint = fingerprint(self._copy)
        if self.kind == "trust_region":
            self._first = {name: value.clone() for name, value in self._copy.named_parameters()}
        if self.kind == "ema":
            self._average = _coarse_in_float32(self._copy)

    def model(self, student: Any) -> Any:
        """Return the model that teaches now, moved to the student's device.

        The first call starts the teacher, unless ``start`` was called before.
        """
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
        """Update the teacher after optimizer step ``number``, counted from 1."""
        if self.kind in ("frozen", "live") or (self.kind == "periodic" and number % self.every):
            return
        copied = self.model(student)
        reshard(student)
        reshard(copied)
        parameters = {name: own_part(value) for name, value in copied.named_parameters()}
        for name, value in ((name, own_part(value)) for name, value in student.named_parameters()):
            if self.kind == "periodic":
                parameters[name].copy_(value)
                continue
            target = own_part(self._average[name]) if name in self._average else parameters[name]
            base = own_part(self._first[name]) if self.kind == "trust_region" else target
            dtype = torch.promote_types(base.dtype, torch.float32)
            target.copy_(torch.lerp(base.to(dtype), value.to(dtype), self.rate))
            if target is not parameters[name]:
                parameters[name].copy_(target)

    def state_dict(self) -> dict[str, Any]:
        """Return the state that a checkpoint must hold for a resumed run to be taught the same.

        A frozen teacher is loaded again with the run's model, so its state is a fingerprint, which
        shows a changed model.
        """
        if self._copy is None:
            return {}
        if self.kind == "frozen":
            return {"fingerprint": self._fingerprint}
        reshard(self._copy)
        return {"copy": self._copy.state_dict(), "first": self._first, "average": self._average}

    def load_state_dict(self, state: dict[str, Any], student: Any) -> None:
        """Restore a state. One of an earlier version, without a separate average, resumes from the rounded average.

        Raise RecipeError if the student's first weights are others than those of the state.
        """
        if "fingerprint" in state:
            self.start(student)
            if state["fingerprint"] != self._fingerprint:
                raise RecipeError(
                    "the weights of model.name changed since this run began; restore them, or choose another out"
                )
        elif state:
            self.start(student)
            average = state.get("average") or {}
            _load(self._copy.state_dict(), state["copy"])
            _load(self._first, state["first"])
            if self.kind == "ema":
                self._average = _coarse_in_float32(self._copy)
                _load(self._average, {name: value for name, value in average.items() if name in self._average})


class Drift:
    """Distance of a teacher from its first weights on the sites of a few rollouts, in nats a token.

    It stores the hidden states [R, H] and the head [V, H] of the first weights, on the CPU, and no logits [R, V]. A
    pickle of an earlier version, which stores logits, raises KeyError when it is loaded.
    """

    def __init__(self, probe: Sequence[tuple[Rollout, Sequence[Site]]]) -> None:
        self._probe = [(rollout, sites) for rollout, sites in probe if sites]
        self._rows: list[torch.Tensor] = []
        self._head: Head | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickle; ``torch.load`` may have moved its tensors to another device."""
        self._probe = state["_probe"]
        self._rows = [rows.cpu() for rows in state["_rows"]]
        self._head = None if state["_head"] is None else _move_head(state["_head"], torch.device("cpu"))

    @property
    def passes(self) -> int:
        """Return the forward passes of one measurement."""
        return sum(len(sites) for _, sites in self._probe)

    @torch.no_grad()
    def measure(self, teacher: Any) -> float:
        """Return the mean Jensen-Shannon divergence from the first measurement: 0 at the first, at most log 2."""
        current = [teacher_rows(teacher, r.ids, sites, packed=False) for r, sites in self._probe]
        head = head_of(teacher)  # after the passes, which gather it if the weights are divided over ranks
        if self._head is None:
            self._rows, self._head = [rows.cpu() for rows in current], _move_head(head, torch.device("cpu"), copy=True)
            return 0.0
        first_head = _move_head(self._head, head.weight.device)
        divergences = [
            fused_divergence(rows, head, first_rows.to(rows.device), first_head)
            for rows, first_rows in zip(current, self._rows, strict=True)
        ]
        return float(torch.cat(divergences).mean()) if divergences else 0.0


@torch.no_grad()
def fingerprint(model: Any) -> str:
    """Return a hash of a model's weights, the same for any division over ranks, which must all call it together."""
    sums = []
    for name, value in model.named_parameters():
        words = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[value.dtype.itemsize]
        divided = value.data if isinstance(value.data, DTensor) else None
        part = own_part(value)
        total = part.contiguous().view(words).sum(dtype=torch.int64)
        if divided is not None and divided.placements[-1].is_shard():
            torch.distributed.all_reduce(total, group=divided.device_mesh.get_group(divided.device_mesh.ndim - 1))
        sums.append(f"{name} {tuple(value.shape)} {int(total)}")
    return hashlib.sha256("\n".join(sorted(sums)).encode()).hexdigest()


def _copy_of(student: Any) -> Any:
    """Return a copy of a model for reading, which shares the weights that do not learn."""
    shared = {id(parameter): parameter for parameter in student.parameters() if not parameter.requires_grad}
    return copy.deepcopy(student, shared).eval().requires_grad_(False)


@torch.no_grad()
def _load(tensors: dict[str, Any], stored: dict[str, Any]) -> None:
    """Copy whole stored tensors into those of the same names, which may be divided. Raise KeyError for a new name."""
    for name, whole in stored.items():
        target, value = tensors[name], whole.to(tensors[name].device)
        if isinstance(target, DTensor):
            value = distribute_tensor(value, target.device_mesh, target.placements, src_data_rank=None)
        target.copy_(value)


def _coarse_in_float32(model: Any) -> dict[str, torch.Tensor]:
    """Return the parameters of types coarser than float32, in float32."""
    return {name: value.float() for name, value in model.named_parameters() if value.dtype.itemsize < 4}


def _device(model: Any) -> torch.device:
    device: torch.device = next(model.parameters()).device
    return device


def _move_head(head: Head, device: torch.device, *, copy: bool = False) -> Head:
    """Return the head on a device; with ``copy`` a copy of it even if it is there already."""
    bias = None if head.bias is None else head.bias.detach().to(device, copy=copy)
    return replace(head, weight=head.weight.detach().to(device, copy=copy), bias=bias)
