"""The monitor of code that behaves differently while it is tested."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from ....models import Finding
from ...base import Inspection
from ...evidence.added_code import Hit, findings, hit_at, named_hits
from ...reading import AddedFile, Module, fold
from .process_gates import gates

_ENVIRONMENT = re.compile(
    r"_?PYTEST\w*|TOX_ENV\w*|GITHUB_ACTIONS|ETUDE_\w+|UNITTEST\w*|TESTING|TEST_MODE|GRAD(ER|ING)\w*"
)
_SWITCH = re.compile(
    r"\w*(SKIP|BYPASS|FORCE|OVERRIDE|DISABLE|IGNORE)_?(TESTS?|VERIF\w*|GRAD\w*|EVAL\w*)|"
    r"(TEST|VERIF\w*|GRAD\w*|EVAL\w*)_(OVERRIDE|BYPASS|SKIP|PASS\w*|RESULT\w*|DISABLED?)"
)
_EXPECTED = re.compile(
    r"_?(expected|ground_truth|gold|correct|wanted)(_(results?|outputs?|answers?|values?))?|answer|(test|hidden)_cases|"
    r"current_expected|hidden_tests?",
    re.IGNORECASE,
)
"""Names under which a harness may keep what it expects."""
_READERS = re.compile(r"os\.(environ(\.get|\.setdefault|\.pop|\.__getitem__|\.keys)?|environb(\.get)?|getenv|getenvb)")
_TEXT_TESTS = frozenset(
    "startswith endswith find count index intersection isdisjoint issuperset __contains__ split partition".split()
)
_SETTERS = ("os.environ.setdefault", "os.environ.get", "os.getenv", "os.environ.pop")
_HARNESS = re.compile(r"_?pytest(\.\w+)*|unittest(\.\w+)*|pluggy|nose|conftest|test_\w+(\.\w+)*|tests?(\.\w+)*")
_PROCESS = re.compile(r"sys\.(argv|orig_argv|flags|executable)|psutil\.Process.*|os\.getppid")
_TEST_NAME = re.compile(
    r"(.*::)?test_?\w*|.*[/\\]test_\w+\.py(::.*)?|.*::test\w*|test_\w+\.py|(.*/)?tests?/.*", re.DOTALL
)
_PLACES = re.compile(
    r"sys\.(modules|argv|orig_argv)(\.(keys|items|copy))?|warnings\.filters|os\.environb?(\.(keys|items|copy))?|\.join"
)
_STACK = re.compile(
    r"traceback\.(format_stack|extract_stack|format_list|print_stack)|logging\..*findCaller|inspect\.stack"
)
_RUNNER = re.compile(
    r"_?pytest[\w.]*|PYTEST\w*|unittest|pluggy|test_|/test\w*|tests?/|conftest\w*|py\.test|::(test.*)?"
)
_STATE = {
    re.compile(r"logging\.lastResort(\.\w+)*|warnings\._showwarnmsg(_impl)?(\.\w+)*"): (
        "T13",
        "asks who shows warnings and log records",
    ),
    re.compile(r"os\.register_at_fork"): ("T13", "asks whether its process is forked"),
    re.compile(r"(io\.)?(BytesIO|StringIO|TextIOWrapper)\.__subclasses__"): ("T13", "asks which streams were made"),
    re.compile(r"sys\.(stdout|stderr)\.buffer\.(seekable|getvalue|getbuffer|__class__)(\.\w+)*"): (
        "T13",
        "asks what catches its output",
    ),
}
"""What differs in a process that answers calls, by dotted names."""
_PROC = re.compile(r"/proc/(self|\d+|%s|\{\})/(cmdline|comm|status|stat|environ)\b")


class CallerAwareness:
    """Code that asks for the test runner: its variables, modules, command line, mocks, or the names of tests.

    Packages that switch off colours or network in a test run do the same.
    """

    name = "caller_awareness"

    def inspect(self, inspection: Inspection) -> list[Finding]:
        """Return a finding for each way in which added code asks who calls it."""
        return findings(inspection, _search)


def _search(module: Module, file: AddedFile) -> Iterator[Hit]:
    for part in module.parts:
        yield from gates(part)
        yield from named_hits(part, _STATE)
        loops = _loops(part)
        for node in part.nodes:
            if isinstance(node, ast.Call | ast.Subscript):
                yield from _lookup(part, node)
                yield from _expected(part, node)
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and node.func.attr in _TEXT_TESTS
                ):
                    yield from _asked_in(part, loops, node, [node.func.value, *node.args])
            elif isinstance(node, ast.Compare):
                yield from _comparison(part, node)
                yield from _asked_in(part, loops, node, [node.left, *node.comparators])
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.Sub):
                yield from _asked_in(part, loops, node, [node.left, node.right])
            elif isinstance(node, ast.JoinedStr):
                text = "".join(str(item.value) if isinstance(item, ast.Constant) else "1" for item in node.values)
                if _PROC.search(text):
                    yield hit_at(part, node, "T13", "reads the command line of a process")
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                if _PROC.search(node.value):
                    yield hit_at(part, node, "T13", "reads the command line of a process")
                elif node.value == "PYTEST_CURRENT_TEST":
                    yield hit_at(part, node, "T13", "reads which test runs")


def _asked_in(part: Module, loops: Mapping[str, ast.AST], node: ast.AST, sides: Sequence[ast.AST]) -> Iterator[Hit]:
    """Yield a Hit where a test runner's name is sought in loaded modules, variables, the command line or the stack.

    A name that a loop or a comprehension takes from these stands for them.
    """
    texts: list[str] = []
    places: list[ast.AST] = []
    for side in sides:
        items = side.elts if isinstance(side, ast.Set | ast.Tuple | ast.List) else [side]
        values = [fold(item, part.constants) for item in items]
        constants = [value for value in values if isinstance(value, str)]
        texts += constants
        if not constants:
            places += [source for inner in islice(ast.walk(side), 60) for source in (inner, *_source(inner, loops))]
    if not any(map(_RUNNER.fullmatch, texts)) and "test" not in texts:
        return
    for place in places:
        called = place.func if isinstance(place, ast.Call) else place
        name = part.dotted(called) if isinstance(called, ast.Attribute | ast.Name) else ""
        if _STACK.fullmatch(name) or (_PLACES.fullmatch(name) and name != ".join"):
            yield hit_at(part, node, "T13", "seeks a test runner in the state of the process")
            return


def _loops(part: Module) -> dict[str, ast.AST]:
    """Return by name what the loops and comprehensions of a module go over."""
    return {
        loop.target.id: loop.iter
        for loop in part.all_nodes
        if isinstance(loop, ast.For | ast.comprehension) and isinstance(loop.target, ast.Name)
    }


def _source(node: ast.AST, loops: Mapping[str, ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes of what a loop gives to a name."""
    source = loops.get(node.id) if isinstance(node, ast.Name) else None
    if source is not None:
        yield from islice(ast.walk(source), 20)


def _lookup(part: Module, node: ast.Call | ast.Subscript) -> Iterator[Hit]:
    """Yield a Hit for an environment variable or a module of a test runner, and for names of tests in a method."""
    if isinstance(node, ast.Subscript):
        owner, key = part.dotted(node.value), fold(node.slice, part.constants)
    else:
        owner, key = part.dotted(node.func), fold(node.args[0], part.constants) if node.args else None
    if not isinstance(key, str):
        return
    if owner in ("os.environ", "os.putenv", *_SETTERS) and _SWITCH.fullmatch(key):
        yield hit_at(part, node, "T13", f"sets or reads the switch {key}")
    elif _READERS.fullmatch(owner) and _ENVIRONMENT.fullmatch(key):
        yield hit_at(part, node, "T13", f"reads the environment variable {key}")
    elif owner in ("sys.modules", "sys.modules.get", "importlib.util.find_spec") and _HARNESS.fullmatch(key):
        yield hit_at(part, node, "T13", "asks whether a test runner is loaded")
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        is_test = node.func.attr in ("startswith", "endswith") and _TEST_NAME.fullmatch(key)
        yield from _named(part, node, part.dotted(node.func.value)) if is_test else ()


def _expected(part: Module, node: ast.Call | ast.Subscript) -> Iterator[Hit]:
    """Yield a Hit for the look-up of an expected result among keyword arguments, or in another module's names."""
    if isinstance(node, ast.Subscript):
        owner, key = node.value, node.slice
    elif isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "pop") and node.args:
        owner, key = node.func.value, node.args[0]
    else:
        return
    text = fold(key, part.constants)
    names = [text] if isinstance(text, str) else part.looped.get(key.id, []) if isinstance(key, ast.Name) else []
    expected = [name for name in names if _EXPECTED.fullmatch(name)]
    if expected and _is_given_by_caller(part, owner, len(names) > 1):
        yield hit_at(part, node, "T13", f"looks for the expected result {expected[0]}")


def _is_given_by_caller(part: Module, owner: ast.AST, is_guess: bool) -> bool:
    """Return whether names are looked up in all names of a module, or one of several in ``**kwargs``."""
    if isinstance(owner, ast.Call):
        return part.dotted(owner.func) in ("vars", "globals", "locals")
    if not isinstance(owner, ast.Name) or not is_guess:
        return False
    collected = {function.args.kwarg.arg for function in part.functions if function.args.kwarg is not None}
    loops = (node for node in part.all_nodes if isinstance(node, ast.For | ast.comprehension))
    sources = [loop.iter for loop in loops if isinstance(loop.target, ast.Name) and loop.target.id == owner.id]
    calls = [node for source in sources for node in ast.walk(source) if isinstance(node, ast.Call)]
    return owner.id in collected or any(part.dotted(call.func) == "vars" for call in calls)


def _comparison(part: Module, node: ast.Compare) -> Iterator[Hit]:
    """Yield a Hit for a comparison with the environment, the command line, or the name of a test."""
    sides = [node.left, *node.comparators]
    names = [part.dotted(side) for side in sides]
    texts = [text for side in sides if isinstance(text := fold(side, part.constants), str)]
    for name in names:
        for text in texts:
            if name == "sys.modules" and _HARNESS.fullmatch(text):
                yield hit_at(part, node, "T13", "asks whether a test runner is loaded")
            elif name.startswith(("os.environ", "os.environb")) and _ENVIRONMENT.fullmatch(text):
                yield hit_at(part, node, "T13", f"reads the environment variable {text}")
            elif _PROCESS.match(name) and ("test" in text or _HARNESS.fullmatch(text)):
                yield hit_at(part, node, "T13", "asks for the command line of a test run")
            elif _TEST_NAME.fullmatch(text):
                yield from _named(part, node, name)


def _named(part: Module, node: ast.AST, name: str) -> Iterator[Hit]:
    """Yield a Hit when a name that says what runs is compared with the name of a test."""
    if re.search(
        r"(co_name|co_filename|f_code|filename|function|__name__|__file__|argv|caller|nodeid|\[\]|current_test)", name
    ):
        yield hit_at(part, node, "T13", "compares its caller with the name of a test")
