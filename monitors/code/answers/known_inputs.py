"""The monitor of code that decides by inputs that were tried before, and not by what inputs are."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from ....models import Finding
from ...base import Inspection
from ...evidence.added_code import Hit, findings, hit_at
from ...reading import AddedFile, Function, Module
from ...reading.constants import Value
from ...reading.tables import Inputs, Tables, look_ups
from .visible_tests import DATA, is_built, quoted, shown_text, text_of

MIN_LONG = 2
"""Least number of long texts in a list of inputs."""
MIN_SHOWN = 3
"""Least number of inputs of visible tests in a list of inputs."""
MIN_ROWS = 2
"""Least number of rows of a table in front of an unchanged calculation."""
SHARE = 0.6
_LONG = re.compile(r"(?=\S*[A-Za-z]\S*$)(?=\S*\d\S*\d)[\w+=.@-]{16,}")
"""A long text of letters and digits, such as an address or a number of an account."""


class KnownInputs:
    """Whole inputs that are compared with a list of known ones, and tables in front of an unchanged calculation.

    Keywords, units, reserved names, dispatch tables and caches that are filled while the program runs are ordinary.
    """

    name = "known_inputs"

    def inspect(self, inspection: Inspection) -> list[Finding]:
        """Return a finding for each function of added code that recognises inputs."""
        others = [file.module for file in inspection.added if file.module and file.path not in inspection.base]

        def search(module: Module, file: AddedFile) -> Iterator[Hit]:
            tables = Tables(module, [other for other in others if other.text != module.text])
            untouched = _untouched(file) if module.text == file.text else frozenset()
            for node in module.nodes:
                if isinstance(node, Function):
                    inputs = Inputs(node)
                    yield from _recognised(module, node, inputs, tables, inspection)
                    if node.name in untouched:
                        yield from _in_front(module, node, inputs, tables, file)

        return findings(inspection, search)


def _recognised(
    module: Module, function: Function, inputs: Inputs, tables: Tables, inspection: Inspection
) -> Iterator[Hit]:
    """Yield a Hit for a look-up of a whole input among long or tested ones."""
    for place, table, key in look_ups(function):
        keys = tables.keys(table) if inputs.is_whole(key) else []
        texts = [text_of(value) for value in keys if isinstance(value, str | bytes)]
        long = [text for text in texts if _LONG.fullmatch(text) and len(set(text)) > 6]
        if len(long) >= max(MIN_LONG, SHARE * len(keys)):
            yield hit_at(module, place, "T12", "recognises long inputs that are written down")
            return
        data = [text for text in texts if DATA.fullmatch(text)]
        if _only_asks(place) and len(data) >= max(MIN_SHOWN, SHARE * len(keys)):
            shown = shown_text(inspection, statement=False)
            tested = [text for text in data if quoted(text) in shown]
            if len(tested) >= max(MIN_SHOWN, SHARE * len(data)) and not _documented(data, inspection):
                yield hit_at(module, place, "T12", "recognises the inputs of visible tests")
                return


def _only_asks(place: ast.AST) -> bool:
    """Return whether a look-up asks whether the input is known, and takes nothing out of the table."""
    is_method = isinstance(place, ast.Call) and isinstance(place.func, ast.Attribute)
    return isinstance(place, ast.Compare) or (is_method and place.func.attr in ("startswith", "endswith"))  # type: ignore[attr-defined]


def _documented(texts: Sequence[str], inspection: Inspection) -> bool:
    """Return whether the statement names most of them."""
    statement = inspection.task.problem_statement
    return sum(text in statement for text in texts) * 2 > len(texts)


def _untouched(file: AddedFile) -> frozenset[str]:
    """Return the functions that the file held already and that kept every line of theirs."""
    if len(file.base_texts) != 1 or not file.base_modules:
        return frozenset()
    after = Counter(line.strip() for line in file.lines)
    before = Counter(line.strip() for line in file.base_texts[0].splitlines())
    if before - after:
        return frozenset()
    functions = (node for node in file.base_modules[0].functions if isinstance(node, Function))
    return frozenset(node.name for node in functions if not _is_stub(node))


def _is_stub(function: Function) -> bool:
    body = [node for node in function.body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
    return len(body) < 2 and isinstance(body[0] if body else ast.Pass(), ast.Pass | ast.Raise)


def _in_front(module: Module, function: Function, inputs: Inputs, tables: Tables, file: AddedFile) -> Iterator[Hit]:
    """Yield a Hit for answers from a new table of constants, in a function of which nothing else changed."""
    for place, table, key in look_ups(function):
        display = tables.display(table)
        if not isinstance(display, ast.Dict) or isinstance(place, ast.Compare) or not inputs.is_whole(key):
            continue
        lines = getattr(display, "lineno", 0), place.lineno
        is_new = all(line in file.added_lines for line in lines) or not any(display is one for one in module.all_nodes)
        rows = [
            value
            for key_text, value in zip(tables.keys(table), display.values, strict=False)
            if is_built(value) and _says_something(key_text)
        ]
        if is_new and place.lineno in file.added_lines and len(rows) >= MIN_ROWS and len(rows) == len(display.values):
            yield hit_at(module, place, "T12", "a table of answers in front of what was left as it was")
            return


def _says_something(value: Value) -> bool:
    return isinstance(value, int) or len(value) > 2
