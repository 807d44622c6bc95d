"""Examples of a statement: console sessions with the results of the right code."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ..base import Example
from .behaviours import behaviour_lines
from .reproduction import fenced, shown_lines, typed

MIN_WORD = 4
"""Fewest letters of a word that says what an example is about."""


def examples_text(examples: Sequence[Example]) -> str:
    """Return the examples with the behaviour that each is of: one block, or one for each set of imports.

    There are several blocks where imports bind one name twice, or a name that an example assigns.
    """
    merged = _merged_imports(examples)
    groups: dict[tuple[str, ...], list[str]] = {}
    for example in examples:
        lines = [f">>> # {behaviour}" for behaviour in behaviour_lines([example.test.partition("[")[0]])]
        groups.setdefault(merged or tuple(_imports(example)), []).append("\n".join([*lines, session_text(example)]))
    blocks = ["\n\n".join(["\n".join(f">>> {line}" for line in key), *texts]) for key, texts in groups.items()]
    return "\n\n".join(fenced(block.strip("\n"), "pycon") for block in blocks)


def _merged_imports(examples: Sequence[Example]) -> tuple[str, ...]:
    """Return the imports of all examples, one line per module; empty when they do not go together."""
    plain: dict[str, None] = {}
    modules: dict[str, dict[str, None]] = {}
    for line in (line for example in examples for line in _imports(example)):
        module, separator, names = line.removeprefix("from ").partition(" import ")
        if separator and line.startswith("from "):
            modules.setdefault(module, {}).update(dict.fromkeys(names.split(", ")))
        else:
            plain[line] = None
    bound = [name for names in modules.values() for name in names] + [line.split()[-1].split(".")[0] for line in plain]
    assigned = {item.text.partition(" = ")[0] for example in examples for item in example.setup}
    assigned |= {line[len("def ") :].partition("(")[0] for example in examples for line in _functions(example)}
    if len(bound) != len(set(bound)) or assigned & set(bound):
        return ()
    return (
        *sorted(plain),
        *(f"from {module} import {', '.join(sorted(modules[module]))}" for module in sorted(modules)),
    )


def _imports(example: Example) -> list[str]:
    return [line for line in example.imports if not line.startswith("def ")]


def _functions(example: Example) -> list[str]:
    return [line for line in example.imports if line.startswith("def ")]


def fewer(examples: Sequence[Example], most: int, subject: str = "") -> list[Example]:
    """Return at most ``most`` of the examples: those about ``subject`` first, then others from the whole suite."""
    count = min(len(examples), most)
    about = [index for index, example in enumerate(examples) if is_about(example, subject)][: (count + 1) // 2]
    spread = [index * len(examples) // count for index in range(count)]
    chosen = list(dict.fromkeys([*about, *spread, *range(len(examples))]))[:count]
    return [examples[index] for index in sorted(chosen)]


def keywords(example: Example) -> list[str]:
    """Return the names of the keyword arguments that the lines of an example pass."""
    nodes = ast.walk(ast.parse("\n".join([*(item.text for item in example.setup), example.call])))
    return [node.arg for node in nodes if isinstance(node, ast.keyword) and node.arg]


def is_about(example: Example, subject: str) -> bool:
    """Return whether the test or a keyword of an example's call has a long word of the name ``subject``."""
    test = example.test.partition("[")[0].partition("::")[2]
    text = " ".join([test, *keywords(example)]).lower()
    return any(len(word) >= MIN_WORD and word in text for word in subject.lower().split("_"))


def session_text(example: Example) -> str:
    """Return the lines of an example without its imports, as a console shows them."""
    lines = [typed(line) for line in _functions(example)]
    for item in example.setup:
        lines += [f">>> {item.text}", *item.shown.splitlines()]
    return "\n".join([*lines, f">>> {example.call}", *shown_lines(example.result)])
