"""The file that ``etude replay --teachers`` reads: who is asked at what price, and when that is worth it.

[[teachers]]
name = "small"
model = "m-small"
base_url = "http://127.0.0.1:8000/v1"
price = [0.1, 0.4]            # USD per million tokens read and written
cassette = "small.jsonl"      # answers kept there are not asked for again

[budget]
usd = 5.0
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ...errors import ReplayError, TableError
from ...llm import BASE_URL
from ..recipe.typed_toml import parse_table, read_toml


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class TeacherSettings(_Table):
    """One endpoint. ``calls``: ``native``, or ``text`` when it has no calls of its own. ``accuracy`` is a first guess,
    worth as much as ten executed answers. ``temperature`` None leaves it to the endpoint."""

    name: str = Field(min_length=1)
    model: str = Field(min_length=1)
    base_url: str = BASE_URL
    api_key_env: str = "OPENAI_API_KEY"
    price: tuple[float, float] = (0.0, 0.0)
    calls: Literal["native", "text"] = "native"
    accuracy: float = Field(default=0.85, gt=0, lt=1)
    max_tokens: int = Field(default=2048, ge=1)
    temperature: float | None = Field(default=None, ge=0)
    timeout_s: float = Field(default=300.0, gt=0)
    cassette: str = ""

    @model_validator(mode="after")
    def _priced(self) -> TeacherSettings:
        if min(self.price) < 0:
            raise ValueError("a price is USD per million tokens read and written, such as [0.25, 2.0]")
        return self


class BudgetSettings(_Table):
    """What all teachers together may cost, over every start of a replay; None: no limit."""

    usd: float | None = Field(default=None, gt=0)
    tokens: int | None = Field(default=None, ge=1)


class Consensus(_Table):
    """``tau``: actions at least so alike are one answer. A pair needs ``share`` of the weight, ``margin`` over the next
    answer, and ``least`` teachers, unless execution proves the answer.

    With three teachers of equal weight a margin above 1/3 asks for all three; two pass once they are known to be the
    better ones.
    """

    tau: float = Field(default=0.8, gt=0, le=1)
    share: float = Field(default=2 / 3, ge=0.5, le=1)
    margin: float = Field(default=0.34, ge=0, le=1)
    least: int = Field(default=2, ge=1)


class GateSettings(_Table):
    """``which`` turns are asked about: ``voi``, ``all``, or ``random`` with the ``rate``. ``worth``: USD that a right
    pair is worth. ``explore``: the share of other turns asked about all the same. ``tiers``: one teacher after another,
    the cheapest first, until the odds that the student was wrong leave [1 - sure, sure]."""

    which: Literal["voi", "all", "random"] = "voi"
    rate: float = Field(default=0.3, gt=0, le=1)
    worth: float = Field(default=0.05, gt=0)
    explore: float = Field(default=0.08, gt=0, le=0.5)
    tiers: bool = True
    sure: float = Field(default=0.9, gt=0.5, lt=1)
    seed: int = 0


class ValueSettings(_Table):
    """How actions are executed. ``follow``: at most so many further turns, by the cheapest teacher. ``probe``: played
    after the action, ``tests`` runs the visible tests, ``submit`` has it graded."""

    follow: int = Field(default=0, ge=0)
    probe: Literal["none", "tests", "submit"] = "none"


class ReplaySettings(_Table):
    """The whole file. ``system``: the system message that the student had, which stored episodes lack."""

    teachers: tuple[TeacherSettings, ...] = Field(min_length=1)
    budget: BudgetSettings = BudgetSettings()
    consensus: Consensus = Consensus()
    gate: GateSettings = GateSettings()
    value: ValueSettings = ValueSettings()
    system: str = ""

    @model_validator(mode="after")
    def _possible(self) -> ReplaySettings:
        names = [teacher.name for teacher in self.teachers]
        if len(set(names)) < len(names):
            raise ValueError("two teachers have the same name")
        cassettes = [os.path.normpath(teacher.cassette) for teacher in self.teachers if teacher.cassette]
        if len(set(cassettes)) < len(cassettes):
            raise ValueError("two teachers have the same cassette: give each a file of its own")
        if self.consensus.least > len(names):
            raise ValueError(f"consensus.least = {self.consensus.least}, but there are {len(names)} teachers")
        for name, kind in (("rate", "random"), ("worth", "voi"), ("explore", "voi")):
            given, which = getattr(self.gate, name), self.gate.which
            if which != kind and given != GateSettings.model_fields[name].default:
                raise ValueError(f'gate.{name} is not read by which = "{which}", but by {kind}: take it out')
        if self.budget.usd is not None and not any(max(teacher.price) for teacher in self.teachers):
            raise ValueError("budget.usd needs prices: give each teacher price = [READ, WRITTEN] in USD per million")
        return self


def load_settings(path: Path) -> ReplaySettings:
    """Raises ReplayError in one line; cassettes are relative to the file."""
    try:
        table = read_toml(path)
    except FileNotFoundError:
        raise ReplayError(f"there is no file {path}: it lists the teachers as [[teachers]]") from None
    except TableError as error:
        raise ReplayError(str(error)) from None
    settings = parse_settings(table, str(path))
    placed = [
        teacher.model_copy(update={"cassette": str(path.parent / teacher.cassette) if teacher.cassette else ""})
        for teacher in settings.teachers
    ]
    return settings.model_copy(update={"teachers": tuple(placed)})


def parse_settings(table: dict[str, Any], where: str = "the teachers") -> ReplaySettings:
    """Raises ReplayError that names the first wrong key, with the nearest right one."""
    try:
        return parse_table(ReplaySettings, table, where)
    except TableError as error:
        raise ReplayError(str(error)) from None
