"""The renaming of one Snapshot: which names change, proven by the Snapshot's own tests.

A name is renamed only where every use of it is in the tree: it is not a name of the standard library or of an installed
package, no text looks it up in a way that cannot be followed, and no data file mentions it. Names that texts mention as
a word (such as a class in an expected ``repr``) are tried too, and stay when a test that passed fails or is gone. So do
names that the failures of such tests mention. Where a few rounds leave no name outside functions there is no renaming:
other local variables alone do not hide a repository.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from ....environments.snapshots import Snapshot, scratch_tree
from ....environments.snapshots.store.patches import make_patch
from ....environments.snapshots.test_run.test_runner import TestRun
from ....models import PytestVerifier
from ...base import Files
from ...python.source import Module, parse_or_empty
from ...python.source_tree import DOCUMENT_SUFFIXES, SOURCE_SUFFIXES, SourceTree, read_files
from ...validation.measured_stages import Stages, failure_text
from .external_names import external_names
from .local_names import functions
from .names_of_tree import defined_names, module_names, outer_parameters
from .naming import new_name
from .renaming import Renaming
from .string_uses import StringUses, string_uses

ROUNDS = 4
"""Most runs of the suite; after each, names that make tests fail are given up."""
_CONFIGURATION = ("pyproject.toml", "setup.cfg", "setup.py", "tox.ini", "pytest.ini", "MANIFEST.in", "PKG-INFO")
_COLLECTED = re.compile(r"test|Test|pytest_|setup|teardown|setUp|tearDown")
_LEAST = 3


@dataclass(frozen=True)
class Plan:
    """The renaming of a Snapshot, or why there is none."""

    renaming: Renaming | None  # None where tests fail under every one
    reason: str = ""  # counted, where there is no renaming
    defined: int = 0  # identifiers that the package defines
    counts: Mapping[str, int] = field(default_factory=dict)  # renamed identifiers by kind

    @property
    def renamed(self) -> int:
        """Return the number of renamed identifiers."""
        return sum(self.counts.values())


async def make_plan(snapshot: Snapshot, backend: str = "auto") -> Plan:
    """Return the renaming of a Snapshot under which all tests of its baseline pass. Raises SandboxError, OutOfTime."""
    tree = SourceTree.of(snapshot)
    choice = _Choice.of(snapshot, tree)
    given_up: set[str] = set()
    for _ in range(ROUNDS):
        renaming = choice.renaming(given_up)
        if not renaming.words:
            break
        run = await _suite(snapshot, renaming, backend)
        failing = [test for test in snapshot.baseline.passed if not _passes(run, renaming, test)]
        if run.complete and not failing:
            return Plan(renaming, defined=choice.defined, counts=choice.counts(renaming))
        blamed = _blamed(run, renaming, failing)
        given_up |= blamed or (choice.risky - given_up) or set(renaming.words)
    return Plan(None, "suite_fails" if choice.safe | choice.risky else "nothing_to_rename", choice.defined)


def renamed_verifier(verifier: PytestVerifier, renaming: Renaming) -> PytestVerifier:
    """Return the verifier with the new paths."""
    update = {
        "args": [renaming.path(path) for path in verifier.args],
        "python_path": [renaming.path(path) for path in verifier.python_path],
        "options": [renaming.text(option) for option in verifier.options],
        "typed_files": [renaming.path(path) for path in verifier.typed_files],
    }
    return verifier.model_copy(update=update)


def renamed_test(test: str, renaming: Renaming) -> str:
    """Return the new id of a test."""
    path, separator, names = test.partition("::")
    return renaming.path(path) + separator + renaming.text(names)


def all_files(root: SourceTree) -> Files:
    """Return the files of a tree."""
    return read_files(root.root, root.all_files())


async def _suite(snapshot: Snapshot, renaming: Renaming, backend: str) -> TestRun:
    files = all_files(SourceTree.of(snapshot))
    patch = make_patch(files, renaming.files(files))
    recipe = snapshot.recipe.model_copy(update={"verifier": renamed_verifier(snapshot.verifier, renaming)})
    with scratch_tree(snapshot, patch) as tree:
        return await Stages(replace(snapshot, recipe=recipe), backend).run(tree)


def _passes(run: TestRun, renaming: Renaming, test: str) -> bool:
    outcome = run.outcomes.get(renamed_test(test, renaming))
    return outcome is not None and outcome.outcome == "passed"


def _blamed(run: TestRun, renaming: Renaming, failing: list[str]) -> set[str]:
    """Return the renamed words that the failures mention, by their old or their new name."""
    texts = [failure_text(run, renamed_test(test, renaming)) for test in failing[:50]]
    mentioned = set(re.findall(r"[^\W\d]\w*", "\n".join([*texts, *run.collect_errors.values(), run.cause])))
    return {old for old, new in renaming.words.items() if {old, new} & mentioned}


@dataclass(frozen=True)
class _Choice:
    """The names of a tree that may change."""

    roots: tuple[str, ...]
    seed: str
    distribution: str  # the distribution's name
    safe: frozenset[str]  # words that no text mentions in an unknown way
    risky: frozenset[str]  # words that texts mention
    modules: frozenset[str]  # those of both that name a module
    variables: frozenset[str]
    parameters: frozenset[str]
    used: frozenset[str]  # all words of the tree and all external names
    defined: int

    @classmethod
    def of(cls, snapshot: Snapshot, tree: SourceTree) -> _Choice:
        """Return what may change in the tree of a Snapshot."""
        sources = {path: content for path, content in tree.python_files.items() if tree.is_source(path)}
        others = [path for path in tree.all_files() if path not in tree.python_files]
        documents = [tree.read(path) for path in others if path.endswith((*DOCUMENT_SUFFIXES, *SOURCE_SUFFIXES))]
        data = [path for path in others if not path.endswith((*DOCUMENT_SUFFIXES, *SOURCE_SUFFIXES))]
        uses = string_uses(tree.python_files, documents)
        external = external_names(snapshot)
        in_data = _words_of(tree, [path for path in data if PurePosixPath(path).name not in _CONFIGURATION])
        in_settings = _words_of(tree, [path for path in data if PurePosixPath(path).name in _CONFIGURATION])
        modules = module_names(tree)
        names = {name for content in sources.values() for name in defined_names(parse_or_empty(content))} | modules
        barred = external | in_data
        barred |= _mangled_classes(names, tree.vocabulary)
        free = {name for name in names if name not in barred and _may_change(name) and not uses.is_looked_up(name)}
        risky = {name for name in free if name in uses.words or name in in_settings}
        all_functions = [item for path, content in sources.items() for item in functions(Module(path, content))]
        variables = {name for item in all_functions for name in item.variables}
        parameters = {name for item in all_functions for name in item.parameters}
        variables = {name for name in variables - free if len(name) >= _LEAST and name.isascii()}
        return cls(
            roots=tuple(snapshot.source_roots),
            seed=snapshot.digest,
            distribution=snapshot.name,
            safe=frozenset(free - risky),
            risky=frozenset(risky),
            modules=frozenset(free & modules),
            variables=frozenset(variables),
            parameters=frozenset(_free_parameters(tree, parameters - free, uses)),
            used=frozenset(external | in_data | in_settings | tree.vocabulary | uses.words | uses.docstrings),
            defined=len(names | variables | parameters),
        )

    def renaming(self, given_up: set[str]) -> Renaming:
        """Return the renaming without some names outside functions."""
        used = set(self.used)

        def draw(names: Iterator[str]) -> dict[str, str]:
            drawn: dict[str, str] = {}
            for name in names:
                drawn[name] = new_name(name, used, self.seed)
                used.add(drawn[name])
            return drawn

        chosen = draw(iter(sorted((self.safe | self.risky) - given_up)))
        package = next((PurePosixPath(root).stem for root in self.roots), "")
        new = chosen.get(package)
        distribution = (self.distribution, new) if new and self.distribution.lower() != package.lower() else None
        variables = draw(iter(sorted(self.variables - self.parameters)))
        parameters = draw(iter(sorted(self.parameters)))
        return Renaming(self.roots, chosen, distribution, variables, parameters)

    def counts(self, renaming: Renaming) -> dict[str, int]:
        """Return the numbers of renamed identifiers by kind."""
        words = set(renaming.words)
        return {
            "names": len(words - self.modules),
            "modules": len(words & self.modules),
            "variables": len(renaming.variables),
            "parameters": len(renaming.parameters),
        }


def _may_change(name: str) -> bool:
    return len(name) >= _LEAST and name.isascii() and not name.startswith("__") and not _COLLECTED.match(name)


def _mangled_classes(names: set[str], vocabulary: set[str]) -> set[str]:
    """Return the names of classes that a mangled name holds: ``_Class__attribute`` is a word of its own."""
    owners = {match[1] for word in vocabulary if (match := re.fullmatch(r"_([^\W_]\w*?)__\w+", word))}
    return {name for name in names if name.lstrip("_") in owners}


def _free_parameters(tree: SourceTree, parameters: set[str], uses: StringUses) -> set[str]:
    """Return the parameters that no call and no text names, and that each function of the package may rename."""
    named = uses.keywords | uses.exact
    sources = {path: content for path, content in tree.python_files.items() if tree.is_source(path)}
    fixed: set[str] = set()
    for path, content in sources.items():
        movable: dict[str, int] = {}
        for item in functions(Module(path, content)):
            for name in item.outer_parameters:
                movable[name] = movable.get(name, 0) + 1
        for name, number in _parameter_counts(content).items():
            if movable.get(name, 0) < number:
                fixed.add(name)
    return {
        name
        for name in parameters
        if len(name) >= _LEAST and name.isascii() and name not in named and name not in fixed
    }


def _parameter_counts(content: bytes) -> dict[str, int]:
    """Return how many outermost functions of a module have a parameter of each name."""
    counts: dict[str, int] = {}
    for names in outer_parameters(parse_or_empty(content)):
        for name in names:
            counts[name] = counts.get(name, 0) + 1
    return counts


def _words_of(tree: SourceTree, paths: list[str]) -> set[str]:
    """Return the words of some files."""
    words: set[str] = set()
    for path in paths:
        words |= set(re.findall(r"[^\W\d]\w*", tree.read(path).decode("utf-8", "replace")))
    return words
