"""The generator ``add_types``: a typed module without the annotations of its functions, and mypy as a judge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from ....environments.grading.type_check import MISSING, STRICTNESS, is_available
from ....errors import GeneratorError
from ....models import GeneratorRef
from ...base import Candidate, HiddenTests, StatementContext, TestPolicy
from ...python.source_tree import SourceTree
from ...python.tested_code import TestedCode, in_seed_order
from ...statements.behaviours import bullets
from .annotations import Annotated as Module
from .annotations import annotated
from .moved_tests import host_file
from .symbols import with_imports

if TYPE_CHECKING:
    from ....environments.snapshots import Snapshot

_TESTS = """

def _source_of_typed_module():
    with open(importlib.import_module("{dotted}").__spec__.origin, encoding="utf-8") as file:
        return file.read()


def _functions_of_typed_module(body, prefix=""):
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from _functions_of_typed_module(node.body, prefix + node.name + ".")


@pytest.mark.parametrize("name", {functions})
def test_{stem}_has_annotations(name):
    functions = dict(_functions_of_typed_module(ast.parse(_source_of_typed_module()).body))
    arguments = functions[name].args
    static = any(ast.unparse(item) == "staticmethod" for item in functions[name].decorator_list)
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    every = [item for item in every if item is not None]
    first = 1 if "." in name and not static else 0
    assert [item.arg for item in every[first:] if item.annotation is None] == []
    assert functions[name].returns is not None


def test_{stem}_does_not_avoid_types():
    shortcuts = re.findall({pattern}, _source_of_typed_module())
    assert len(shortcuts) <= {most}
"""
_PATTERN = r"\bAny\b|\bcast\(|type:\s*ignore|#\s*mypy:|no_type_check"


@dataclass(frozen=True)
class Knobs:
    """Which modules lose their annotations, and what the workspace shows of the tests."""

    min_functions: Annotated[int, Field(ge=1)] = 3
    """Fewest functions of the module."""
    max_functions: Annotated[int, Field(ge=1)] = 40
    """Most functions of the module."""
    tests: TestPolicy = "hidden"
    """``visible`` puts the tests of the annotations into the workspace."""


@dataclass(frozen=True)
class TypesStatement:
    """The request: which functions, which checker with which options, and what counts as a shortcut."""

    path: str
    functions: tuple[str, ...]
    shortcuts: int

    def render(self, context: StatementContext) -> str:
        """Return the request as Markdown."""
        paragraphs = [
            f"# Annotate `{self.path}` in {context.package}",
            f"The functions of `{self.path}` have no type annotations. Annotate every parameter (except `self` and "
            "`cls`) and the result of each of them and of the functions inside them, so that mypy accepts the file; do "
            "not change what the code does.",
            bullets(f"`{name}`" for name in self.functions),
            f"The file is checked by `mypy {' '.join(STRICTNESS)}`, without a configuration file and without the "
            "installed packages, and must give no error. The workspace itself may lack mypy. Besides:\n\n"
            f"- `Any`, `cast(...)`, `no_type_check`, `type: ignore` and `mypy:` comments occur at most "
            f"{self.shortcuts} times in the whole file, imports included.\n"
            "- All tests of the package still pass.",
        ]
        return "\n\n".join(paragraphs) + "\n"


class AddTypes:
    """Strip the annotations of a typed module's functions and ask for types that mypy accepts."""

    name = "add_types"
    version = "1"
    knobs = Knobs

    def candidates(self, snapshot: Snapshot, seed: int, knobs: Knobs) -> Iterator[Candidate]:
        """Yield one candidate per completely annotated module that tests run, in seed order. Raises GeneratorError."""
        if not is_available():
            raise GeneratorError(MISSING)
        code = TestedCode(snapshot)
        reference = GeneratorRef(name=self.name, version=self.version, seed=seed, knobs=asdict(knobs))
        stubs = set(code.tree.stub_files())
        for module in in_seed_order(code.tree.modules(), seed, self.name, key=lambda item: item.path):
            typed = annotated(module.source)
            if typed is None or not knobs.min_functions <= len(typed.functions) <= knobs.max_functions:
                continue
            affected = code.tests_of(module.path, lambda key: True)
            host = host_file(code.tree, affected)
            if host is not None and f"{module.path}i" not in stubs:
                yield _propose(code.tree, module.path, typed, host, reference, knobs)


def _propose(tree: SourceTree, path: str, typed: Module, host: str, reference: GeneratorRef, knobs: Knobs) -> Candidate:
    dotted = tree.dotted_name(path)
    stem = dotted.replace(".", "_")
    text = _TESTS.format(
        dotted=dotted, stem=stem, functions=typed.functions, pattern=f'r"{_PATTERN}"', most=typed.shortcuts
    )
    source = with_imports(tree.python_files[host].rstrip() + b"\n", "ast", "importlib", "re", "pytest")
    tests = [f"{host}::test_{stem}_has_annotations[{name}]" for name in typed.functions]
    return Candidate(
        entity=f"{path}::{stem}",
        generator=reference,
        exercise={path: typed.stripped},
        hidden_tests=HiddenTests(tests, knobs.tests, added={host: source + text.encode()}),
        statement=TypesStatement(path, tuple(typed.functions), typed.shortcuts),
        typed_files=(path,),
        probes={"object everywhere": {path: typed.careless}},
        features={"functions": len(typed.functions), "shortcuts": typed.shortcuts},
    )
