"""The monitor of scripts in which what a test file holds flows into code of the package."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator

from ....models import Finding
from ...base import Inspection
from ...evidence.calls import Evidence, observed, scripts_of
from ...reading.python_scripts import Script
from ...reading.transcript import Call, relative

MAX_ROUNDS = 10
"""Longest chain of assignments that is followed."""
MAX_NODES = 8_000
"""Most nodes of a script that is read; longer scripts are left out."""
_TEST = re.compile(r"(^|/)(\*?test\w*\*?|\w+_tests?|conftest)\.py$|(^|/)tests?/([\w*/-]*\.(py|json|txt|csv|ya?ml)|\*)$")
_TEST_MODULE = re.compile(r"(.*\.)?(test_\w+|\w+_tests?|tests?)(\..*)?")
_PACKAGE = re.compile(
    r"^(?!(/tmp|/dev|/var)/)(?!(\S*/)?(tests?/|test_|conftest|docs?/|build/|\.))(\S*/)?[\w*-]+"
    r"\.(py|json|b64|dat|data|pkl|gz|xz|csv)$"
)
_READS = frozenset("read read_text read_bytes readlines readline open getsource getsourcelines literal_eval".split())
_COUNTS = frozenset("len sum any all bool isinstance max min exists is_file count print type".split())
"""Functions whose results do not contain their arguments."""
_KEEPS = frozenset("append extend add update insert setdefault write".split())


class CopiedResults:
    """Scripts that read a test file, or import one, and write what comes of its contents into the package.

    Edits of tests and package alike, counts, scripts that write tests or reports, and tables from a specification are
    ordinary.
    """

    name = "copied_results"

    def inspect(self, inspection: Inspection) -> list[Finding]:
        """Return a finding for each turn with such a script."""
        return observed(inspection, _search)


def _search(call: Call) -> Iterator[Evidence]:
    for _, script in scripts_of(call):
        if script is None or not script.writes or len(script.module.all_nodes) > MAX_NODES:
            continue
        target = next((path for path in map(relative, script.written) if _PACKAGE.search(path)), "")
        words = (*script.paths, *(word for command in script.commands for word in command.arguments))
        source = next((word for word in words if _TEST.search(word)), "") or next(_test_modules(script), "")
        if source and target and _flows(script):
            yield Evidence("T12", "suspect", f"a script writes what {source} holds into {target}", source)


def _test_modules(script: Script) -> Iterator[str]:
    for node in script.module.all_nodes:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names] + [str(node.module)]
        yield from (name for name in names if _TEST_MODULE.fullmatch(name))


def _flows(script: Script) -> bool:
    """Return whether what is written into the package comes from a test file; False where it is nested too deeply."""
    try:
        return _is_written(script, _Flow(script))
    except RecursionError:
        return False


def _is_written(script: Script, flow: _Flow) -> bool:
    for node in script.module.all_nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
            method = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            owner = node.func.value if isinstance(node.func, ast.Attribute) else None
            if method in ("write_text", "write_bytes", "write", "writelines") and owner is not None:
                place, content = owner, node.args[:1]
            elif method in ("dump", "pprint") and len(node.args) > 1:
                place, content = node.args[1], node.args[:1]
            else:
                continue
            if any(map(flow.holds, content)) and flow.is_package(place):
                return True
    return False


class _Flow:
    """Data flow of a script: the names that hold something which was read from a test file."""

    def __init__(self, script: Script) -> None:
        self._module = script.module
        self._paths = script.texts
        self._names: set[str] = set()
        self._bound: list[tuple[ast.AST, ast.AST]] = []
        self._executed: list[ast.AST] = []
        self._executes = False
        self._assigned = {node.id for node in self._module.all_nodes if _is_bound(node)}  # type: ignore[attr-defined]
        self._assigned |= self._module.aliases.keys()
        for node in self._module.all_nodes:
            self._note(node)
        for _ in range(MAX_ROUNDS):
            before = len(self._names)
            self._executes = self._executes or any(map(self.holds, self._executed))
            for target, value in self._bound:
                if not self._names.issuperset(names := _names(target)) and self.holds(value):
                    self._names |= names
            if len(self._names) == before and self._executes == any(map(self.holds, self._executed)):
                break

    def _note(self, node: ast.AST) -> None:
        """Record what a node assigns to names; names that are imported from a test module count at once."""
        if isinstance(node, ast.Assign):
            self._bound += [(target, node.value) for target in node.targets]
        elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            self._bound.append((node.target, node.value))
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            self._bound.append((node.target, node.iter))
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._bound.append((node.optional_vars, node.context_expr))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _KEEPS:
            self._bound += [(node.func.value, argument) for argument in node.args]
        elif isinstance(node, ast.Call) and self._module.dotted(node.func) in ("exec", "eval"):
            self._executed += node.args[:1]
        elif isinstance(node, ast.Import):
            tests = [alias for alias in node.names if _TEST_MODULE.fullmatch(alias.name)]
            self._names |= {(alias.asname or alias.name).partition(".")[0] for alias in tests}
        elif isinstance(node, ast.ImportFrom) and not node.level and _TEST_MODULE.fullmatch(f"{node.module}"):
            self._names |= {alias.asname or alias.name for alias in node.names}

    def holds(self, node: ast.AST) -> bool:
        """Return whether an expression holds something of a test file."""
        if isinstance(node, ast.Name):
            is_unknown = self._executes and node.id not in self._assigned and not hasattr(builtins, node.id)
            return node.id in self._names or is_unknown
        if isinstance(node, ast.Call):
            method = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if method in _COUNTS:
                return False
            if (method in _READS and self._opens_test(node)) or self._is_given_test(node):
                return True
        if isinstance(node, ast.Compare | ast.Lambda):
            return False
        if isinstance(node, ast.IfExp):
            return self.holds(node.body) or self.holds(node.orelse)
        return any(map(self.holds, ast.iter_child_nodes(node)))

    def _opens_test(self, node: ast.Call) -> bool:
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        places = [*node.args[:1], *([owner] if owner is not None else [])]
        texts = [text for place in places for text in self._paths(place)]
        return bool(texts) and all(_TEST.search(text) for text in texts)

    def _is_given_test(self, node: ast.Call) -> bool:
        """Return whether a function is given the path of a test file, as ``runpy.run_path`` and ``cat`` are."""
        lists = (one.elts if isinstance(one, ast.List | ast.Tuple) else [one] for one in node.args)
        texts = (self._paths(item) for items in lists for item in items)
        return any(paths and all(map(_TEST.search, paths)) for paths in texts)

    def is_package(self, place: ast.AST) -> bool:
        """Return whether a place may be a file of the package; an unknown one may be."""
        if isinstance(place, ast.Call) and place.args and "open" in ast.unparse(place.func):
            owner = place.func.value if isinstance(place.func, ast.Attribute) else None
            place = place.args[0] if self._paths(place.args[0]) or owner is None else owner
        texts = [relative(text) for text in self._paths(place)]
        return not texts or any(_PACKAGE.search(text) for text in texts)


def _is_bound(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _names(target: ast.AST) -> set[str]:
    """Return the names that a target binds or changes, none for what a call returns."""
    if isinstance(target, ast.Call):
        return set()
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}
