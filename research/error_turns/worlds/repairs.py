"""The world of experiment (C): tiny repositories with one wrong expression, as tasks of the coding environment.

The statement names the function, its module without the folder, what it returns and what it should, and lists the
sources. All are in one folder, as one package's are; which differs from task to task, so that it has to be read from
the list. A wrong one is an ErrorTurn.
"""

from __future__ import annotations

import operator
import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from etude.environments.snapshots import Snapshot, build_snapshot, make_patch
from etude.models import GeneratorRef, Task

TOOLS = ["edit_file", "submit"]
"""What ``reset(tools=...)`` is given."""
FOLDERS = ("app", "base", "core", "data", "lib", "util")
LISTED = 4
"""Modules of a repository, all in the same folder."""
MODULES = {
    "train": (
        "account basket bill block board bottle branch bridge budget cable camera card chart coin desk "
        "engine farm field garden house letter market meter mirror office orchard order paper parcel pocket "
        "river road sample shelf signal stock table ticket tower train"
    ).split(),
    "eval": "bakery candle castle cellar ferry harbor island kettle ladder lantern".split(),
}
FUNCTIONS = {
    "train": (
        "amount average balance bonus change charge cover credit demand distance effort excess fraction gain growth "
        "height income limit margin measure"
    ).split(),
    "eval": "offset portion reserve surplus tariff total turnover weight".split(),
}
PARAMETERS = (
    "area cost count days goods hours items level load mass pace pairs parts price rate size space steps".split()
)
ARITHMETIC: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
}  # fmt: skip
COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
OPERATORS: Mapping[str, Callable[[int, int], int]] = {**ARITHMETIC, **COMPARISONS}
MUTATIONS = ("operator", "comparison", "constant", "order")
_ORDERED = ("-", "//", "%", "<", "<=", ">", ">=")
"""Operators whose operands cannot be swapped."""
_CONSTANTS = range(2, 10)
_GRID = range(1, 6)
"""Arguments in the tests: on all pairs of them any two expressions of a mutation differ somewhere."""
_EVAL = 9
_BASE = {
    "common.py": "def same(value):\n    return value\n",
    "tests/test_common.py": "from common import same\n\n\ndef test_same():\n    assert same(1) == 1\n",
}


class Expression(NamedTuple):
    left: str
    sign: str
    right: str

    def __str__(self) -> str:
        return f"{self.left} {self.sign} {self.right}"

    def values(self, parameters: Sequence[str]) -> list[int]:
        """On every choice of arguments from the grid, in order."""
        chosen = [dict(zip(parameters, each, strict=True)) for each in product(_GRID, repeat=len(parameters))]
        return [OPERATORS[self.sign](*(_number(side, given) for side in (self.left, self.right))) for given in chosen]


def _number(side: str, given: Mapping[str, int]) -> int:
    return given[side] if side in given else int(side)


class Module(NamedTuple):
    """A function that returns an expression of its parameters, and ``other``, which gives back what it gets."""

    path: str
    function: str
    parameters: tuple[str, ...]
    returns: Expression
    other: str

    def source(self) -> str:
        head = f"def {self.function}({', '.join(self.parameters)}):\n    return {self.returns}\n"
        return f"{head}\n\ndef {self.other}(value):\n    return value\n"


@dataclass(frozen=True)
class Repair:
    """One exercise. ``modules`` are the repository as it should be, the wrong one first; ``listed`` their paths as the
    statement has them; ``old`` is returned where ``modules[0].returns`` should be."""

    seed: int
    split: str
    mutation: str
    modules: tuple[Module, ...]
    listed: tuple[str, ...]
    old: Expression

    @property
    def path(self) -> str:
        return self.modules[0].path

    @property
    def name(self) -> str:
        """Return the module's file, without its folder."""
        return self.path.rpartition("/")[2]

    @property
    def statement(self) -> str:
        module = self.modules[0]
        said = f"{self.name}: `{module.function}` returns `{self.old}`, should return `{module.returns}`."
        return "\n".join([said, "Files:", *self.listed])

    def files(self, *, right: bool = False) -> dict[str, bytes]:
        """Return the sources by path, as the agent finds them, or as they should be."""
        first, *others = self.modules
        found = first if right else first._replace(returns=self.old)
        return {module.path: module.source().encode() for module in (found, *others)}

    def edit(self, folder: str | None = None) -> dict[str, str]:
        """Arguments of the right ``edit_file``; with ``folder``, of one that looks for the module there."""
        path = self.path if folder is None else f"{folder}/{self.name}"
        return {"path": path, "old": str(self.old), "new": str(self.modules[0].returns)}


def split_of(seed: int) -> str:
    """A tenth of the seeds are ``eval``: their modules' and functions' names occur in no other."""
    return "eval" if seed % 10 == _EVAL else "train"


def task_id(seed: int) -> str:
    return f"repair-{seed}"


def repair(seed: int) -> Repair:
    """Return the exercise of a seed; the same seed gives the same exercise."""
    chance, split = random.Random(f"repair {seed}"), split_of(seed)
    names, folder = chance.sample(MODULES[split], LISTED), chance.choice(FOLDERS)
    functions = chance.sample(FUNCTIONS[split], LISTED + 1)
    mutation = chance.choice(MUTATIONS)
    old, parameters, right = _mutated(mutation, chance)
    modules = [Module(f"{folder}/{names[0]}.py", functions[0], parameters, right, functions[-1])]
    for name, function in zip(names[1:], functions[1:-1], strict=True):
        _, given, returns = _mutated(chance.choice(MUTATIONS), chance)
        modules.append(Module(f"{folder}/{name}.py", function, given, returns, functions[-1]))
    listed = chance.sample([module.path for module in modules], LISTED)
    return Repair(seed, split, mutation, tuple(modules), tuple(listed), old)


def _mutated(mutation: str, chance: random.Random) -> tuple[Expression, tuple[str, ...], Expression]:
    """Return a wrong expression, the parameters of both, and the right one."""
    one, two = chance.sample(PARAMETERS, 2)
    if mutation == "constant":
        sign = chance.choice(["+", "-", "*"])
        numbers = chance.sample(_CONSTANTS, 2)
        wrong, right = (Expression(one, sign, str(number)) for number in numbers)
        return wrong, (one,), right
    if mutation == "order":
        sign = chance.choice(_ORDERED)
        return Expression(two, sign, one), (one, two), Expression(one, sign, two)
    signs = chance.sample(list(ARITHMETIC if mutation == "operator" else COMPARISONS), 2)
    wrong, right = (Expression(one, sign, two) for sign in signs)
    return wrong, (one, two), right


# --- as tasks ----------------------------------------------------------------------------------------------------


def snapshot() -> Snapshot:
    """What all repairs are played on: next to nothing. Built once (pytest comes from a package index), then cached."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in _BASE.items():
            file = Path(folder) / "repairs" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return build_snapshot(str(Path(folder) / "repairs"))


def task(of: Repair, on: Snapshot | None = None) -> Task:
    """As a task on ``snapshot()``; without it one that has its prompt, and cannot be played."""
    module = of.modules[0]
    wrong, right = of.files(), of.files(right=True)
    tests = f"tests/test_{of.name}"
    fields: dict[str, Any] = {} if on is None else {"snapshot": on.ref, "verifier": on.verifier}
    return Task(
        task_id=task_id(of.seed),
        generator=GeneratorRef(name="repairs", version="1", seed=of.seed),
        problem_statement=of.statement,
        patch=make_patch(wrong, right),
        test_patch=make_patch({}, {tests: _tests(module).encode()}),
        workspace_patch=make_patch({}, wrong),
        FAIL_TO_PASS=[f"{tests}::test_{module.function}"],
        PASS_TO_PASS=[f"{tests}::test_{module.other}"],
        source_globs=[f"{folder}/**" for folder in FOLDERS],
        protected_paths=["tests/**", "common.py"],
        features={"mutation": of.mutation},
        split=of.split,
        **fields,
    )


def _tests(module: Module) -> str:
    found = f"{module.function}({', '.join(module.parameters)})"
    loops = " ".join(f"for {name} in range({_GRID.start}, {_GRID.stop})" for name in module.parameters)
    return (
        f"from {module.path.removesuffix('.py').replace('/', '.')} import {module.function}, {module.other}\n"
        f"\n\ndef test_{module.function}():\n"
        f"    assert [{found} {loops}] == {module.returns.values(module.parameters)}\n"
        f"\n\ndef test_{module.other}():\n    assert {module.other}(3) == 3\n"
    )
