"""Settings of ``etude replay --teachers FILE``: the teachers, their prices, the budget, and when asking is worth it.

[[teachers]]
name = "small"
model = "m-small"
base_url = "http://127.0.0.1:8000/v1"
price = [0.1, 0.4]            # USD per million tokens read and written
cassette = "small.jsonl"      # recorded answers are not asked for again

[budget]
usd = 5.0
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from ...errors import ReplayError, TableError
from ...llm import BASE_URL
from ..recipe.typed_toml import Table, parse_table, read_toml


class TeacherSettings(Table):
    """One teacher: a model behind an endpoint."""

    name: str = Field(min_length=1)
    """Name of the teacher in reports and pairs."""
    model: str = Field(min_length=1)
    """Name of the model at the endpoint."""
    base_url: str = BASE_URL
    """Address of the OpenAI-compatible endpoint."""
    api_key_env: str = "OPENAI_API_KEY"
    """Environment variable that holds the API key."""
    price: tuple[float, float] = (0.0, 0.0)
    """USD per million tokens read and written."""
    calls: Literal["native", "text"] = "native"
    """``text`` for an endpoint without tool calls: tools and calls are then written in the text."""
    accuracy: float = Field(default=0.85, gt=0, lt=1)
    """Initial estimate of the teacher's accuracy, worth as much as ten executed answers."""
    max_tokens: int = Field(default=2048, ge=1)
    """Most tokens of an answer."""
    temperature: float | None = Field(default=None, ge=0)
    """Sampling temperature; None uses the endpoint's own."""
    timeout_s: float = Field(default=300.0, gt=0)
    """Seconds for one attempt."""
    in_flight: int = Field(default=8, ge=1)
    """Most requests to the endpoint at the same time; of two teachers with the same ``base_url`` the smaller counts."""
    cassette: str = ""
    """File of recorded answers; '' records them beside the file of pairs until the replay is complete."""

    @model_validator(mode="after")
    def _priced(self) -> TeacherSettings:
        if min(self.price) < 0:
            raise ValueError("a price is USD per million tokens read and written, such as [0.25, 2.0]")
        return self


class BudgetSettings(Table):
    """Spending limits of all teachers together, over every start of a replay; None means unlimited."""

    usd: float | None = Field(default=None, gt=0)
    """Most USD."""
    tokens: int | None = Field(default=None, ge=1)
    """Most tokens read and written."""


class Consensus(Table):
    """Agreement that a pair needs, unless execution proves the answer.

    With three teachers of equal weight a margin above 1/3 needs all three; two suffice once they are known to be the
    better ones.
    """

    tau: float = Field(default=0.8, gt=0, le=1)
    """Least similarity of two actions that count as the same answer."""
    share: float = Field(default=2 / 3, ge=0.5, le=1)
    """Least share of the weight for the leading answer."""
    margin: float = Field(default=0.34, ge=0, le=1)
    """Least lead, in weight, over the next answer."""
    least: int = Field(default=2, ge=1)
    """Least number of teachers that give the leading answer."""


class GateSettings(Table):
    """Decision which turns are asked about, and when enough teachers have been asked."""

    which: Literal["voi", "all", "random"] = "voi"
    """Turns that are asked about: where the expected value exceeds the cost, all, or a random share."""
    rate: float = Field(default=0.3, gt=0, le=1)
    """Share of the turns with ``which = "random"``."""
    worth: float = Field(default=0.05, gt=0)
    """Value of a right pair in USD with ``which = "voi"``."""
    explore: float = Field(default=0.08, gt=0, le=0.5)
    """Share of the other turns that is asked about as well with ``which = "voi"``."""
    tiers: bool = True
    """Ask one teacher after another, the cheapest first, until P(the student was wrong) leaves [1 - sure, sure]."""
    sure: float = Field(default=0.9, gt=0.5, lt=1)
    """Probability at which an answer counts as clear."""
    seed: int = 0
    """Seed of the random choices."""


class ValueSettings(Table):
    """How actions are executed."""

    follow: int = Field(default=0, ge=0)
    """Most further turns that the cheapest teacher plays after an action."""
    probe: Literal["none", "tests", "submit"] = "none"
    """Check after the action: run the visible tests, or submit and grade."""


class ReplaySettings(Table):
    """The whole file of teachers."""

    teachers: tuple[TeacherSettings, ...] = Field(min_length=1)
    """The teachers, one ``[[teachers]]`` table each."""
    budget: BudgetSettings = BudgetSettings()
    """Spending limits."""
    consensus: Consensus = Consensus()
    """Agreement that a pair needs."""
    gate: GateSettings = GateSettings()
    """Turns that are asked about."""
    value: ValueSettings = ValueSettings()
    """Execution of actions."""
    system: str = ""
    """System message that the student had; stored episodes lack it."""

    @model_validator(mode="after")
    def _consistent(self) -> ReplaySettings:
        names = [teacher.name for teacher in self.teachers]
        if len(set(names)) < len(names):
            raise ValueError("two teachers have the same name; give each a different one")
        cassettes = [os.path.normpath(teacher.cassette) for teacher in self.teachers if teacher.cassette]
        if len(set(cassettes)) < len(cassettes):
            raise ValueError("two teachers have the same cassette; give each a different file")
        if self.consensus.least > len(names):
            raise ValueError(
                f"consensus.least is {self.consensus.least}, but there are {len(names)} teachers; lower it"
            )
        for name, kind in (("rate", "random"), ("worth", "voi"), ("explore", "voi")):
            value, which = getattr(self.gate, name), self.gate.which
            if which != kind and value != GateSettings.model_fields[name].default:
                raise ValueError(f'gate.{name} is only read with which = "{kind}", not "{which}"; remove it')
        if self.budget.usd is not None and not any(max(teacher.price) for teacher in self.teachers):
            raise ValueError("budget.usd needs prices; give each teacher price = [READ, WRITTEN] in USD per million")
        return self


def load_settings(path: Path) -> ReplaySettings:
    """Read a file of teachers; cassettes are relative to it. Raises ReplayError."""
    try:
        table = read_toml(path)
    except FileNotFoundError:
        raise ReplayError(f"cannot find {path}; write a file that lists the teachers as [[teachers]]") from None
    except TableError as error:
        raise ReplayError(str(error)) from None
    settings = parse_settings(table, str(path))
    teachers = [
        teacher.model_copy(update={"cassette": str(path.parent / teacher.cassette) if teacher.cassette else ""})
        for teacher in settings.teachers
    ]
    return settings.model_copy(update={"teachers": tuple(teachers)})


def parse_settings(table: dict[str, Any], where: str = "the teachers") -> ReplaySettings:
    """Validate a table. Raises ReplayError that names the first wrong key, with the nearest right one."""
    try:
        return parse_table(ReplaySettings, table, where)
    except TableError as error:
        raise ReplayError(str(error)) from None
