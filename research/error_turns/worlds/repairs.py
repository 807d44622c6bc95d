"""Exercises of experiment C: tiny repositories with one wrong expression, as tasks of the coding environment.

The statement names the function, its module without the folder, the wrong and the right expression, and lists the
source files. All are in one folder, which differs from task to task, so that the agent has to read it from the list. An
edit in a wrong folder is an error turn.
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
"""Tools of an episode (``reset(tools=...)``)."""
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
"""Operators whose result changes when their operands are swapped."""
_CONSTANTS = range(2, 10)
_GRID = range(1, 6)
"""Values of arguments in the tests: two expressions of a mutation differ for at least one pair of them."""
_EVAL = 9
_BASE = {
    "common.py": "def same(value):\n    return value\n",
    "tests/test_common.py": "from common import same\n\n\ndef test_same():\n    assert same(1) == 1\n",
}


class Expression(NamedTuple):
    """A binary expression; its sides are names of parameters or numbers."""

    left: str
    sign: str
    right: str

    def __str__(self) -> str:
        return f"{self.left} {self.sign} {self.right}"

    def values(self, parameters: Sequence[str]) -> list[int]:
        """Return the value for every choice of arguments from the grid, in order."""
        choices = [dict(zip(parameters, values, strict=True)) for values in product(_GRID, repeat=len(parameters))]
        sides = (self.left, self.right)
        return [OPERATORS[self.sign](*(_number(side, arguments) for side in sides)) for arguments in choices]


def _number(side: str, arguments: Mapping[str, int]) -> int:
    return arguments[side] if side in arguments else int(side)


class Module(NamedTuple):
    """A module: a function that returns an expression of its parameters, and ``other``, which returns its argument."""

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
    """One exercise."""

    seed: int
    split: str
    mutation: str
    modules: tuple[Module, ...]
    """The repository after the repair; the module to repair comes first."""
    listed: tuple[str, ...]
    """Paths of the modules in the order of the statement."""
    old: Expression
    """Wrong expression in the place of ``modules[0].returns``."""

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
        """Return the sources by path, before the repair, or with ``right`` after it."""
        first, *others = self.modules
        current = first if right else first._replace(returns=self.old)
        return {module.path: module.source().encode() for module in (current, *others)}

    def edit(self, folder: str | None = None) -> dict[str, str]:
        """Return the arguments of the right ``edit_file``, or of one that expects the module in ``folder``."""
        path = self.path if folder is None else f"{folder}/{self.name}"
        return {"path": path, "old": str(self.old), "new": str(self.modules[0].returns)}


def split_of(seed: int) -> str:
    """Return the split of a seed. A tenth is ``eval``; its names of modules and functions occur in no other split."""
    return "eval" if seed % 10 == _EVAL else "train"


def task_id(seed: int) -> str:
    return f"repair-{seed}"


def repair(seed: int) -> Repair:
    """Return the exercise of a seed; the same seed gives the same exercise."""
    rng, split = random.Random(f"repair {seed}"), split_of(seed)
    names, folder = rng.sample(MODULES[split], LISTED), rng.choice(FOLDERS)
    functions = rng.sample(FUNCTIONS[split], LISTED + 1)
    mutation = rng.choice(MUTATIONS)
    old, parameters, right = _mutated(mutation, rng)
    modules = [Module(f"{folder}/{names[0]}.py", functions[0], parameters, right, functions[-1])]
    for name, function in zip(names[1:], functions[1:-1], strict=True):
        _, parameters, returns = _mutated(rng.choice(MUTATIONS), rng)
        modules.append(Module(f"{folder}/{name}.py", function, parameters, returns, functions[-1]))
    listed = rng.sample([module.path for module in modules], LISTED)
    return Repair(seed, split, mutation, tuple(modules), tuple(listed), old)


def _mutated(mutation: str, rng: random.Random) -> tuple[Expression, tuple[str, ...], Expression]:
    """Return a wrong expression, the parameters of both, and the right one."""
    one, two = rng.sample(PARAMETERS, 2)
    if mutation == "constant":
        sign = rng.choice(["+", "-", "*"])
        numbers = rng.sample(_CONSTANTS, 2)
        wrong, right = (Expression(one, sign, str(number)) for number in numbers)
        return wrong, (one,), right
    if mutation == "order":
        sign = rng.choice(_ORDERED)
        return Expression(two, sign, one), (one, two), Expression(one, sign, two)
    signs = rng.sample(list(ARITHMETIC if mutation == "operator" else COMPARISONS), 2)
    wrong, right = (Expression(one, sign, two) for sign in signs)
    return wrong, (one, two), right


# --- as tasks ----------------------------------------------------------------------------------------------------


def snapshot() -> Snapshot:
    """Return the nearly empty snapshot of all repairs, built once (pytest comes from a package index) and cached."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in _BASE.items():
            file = Path(folder) / "repairs" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return build_snapshot(str(Path(folder) / "repairs"))


def task(exercise: Repair, snapshot: Snapshot | None = None) -> Task:
    """Return an exercise as a task on ``snapshot()``; without one the task has its prompt but cannot be played."""
    module = exercise.modules[0]
    wrong, right = exercise.files(), exercise.files(right=True)
    tests = f"tests/test_{exercise.name}"
    fields: dict[str, Any] = {} if snapshot is None else {"snapshot": snapshot.ref, "verifier": snapshot.verifier}
    return Task(
        task_id=task_id(exercise.seed),
        generator=GeneratorRef(name="repairs", version="1", seed=exercise.seed),
        problem_statement=exercise.statement,
        patch=make_patch(wrong, right),
        test_patch=make_patch({}, {tests: _tests(module).encode()}),
        workspace_patch=make_patch({}, wrong),
        FAIL_TO_PASS=[f"{tests}::test_{module.function}"],
        PASS_TO_PASS=[f"{tests}::test_{module.other}"],
        source_globs=[f"{folder}/**" for folder in FOLDERS],
        protected_paths=["tests/**", "common.py"],
        features={"mutation": exercise.mutation},
        split=exercise.split,
        **fields,
    )


def _tests(module: Module) -> str:
    call = f"{module.function}({', '.join(module.parameters)})"
    loops = " ".join(f"for {name} in range({_GRID.start}, {_GRID.stop})" for name in module.parameters)
    return (
        f"from {module.path.removesuffix('.py').replace('/', '.')} import {module.function}, {module.other}\n"
        f"\n\ndef test_{module.function}():\n"
        f"    assert [{call} {loops}] == {module.returns.values(module.parameters)}\n"
        f"\n\ndef test_{module.other}():\n    assert {module.other}(3) == 3\n"
    )
