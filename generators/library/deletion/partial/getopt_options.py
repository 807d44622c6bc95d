"""Options of command lines that are read with getopt, in a chain of ``if opt in ("-x", "--example")``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ....python.source import Edit, apply_edits, items_without
from ..removal.source_file import Function, SourceFile
from .calls_of_tests import called_name
from .rewriting.blocks import without_branch


@dataclass(frozen=True)
class GetoptOption:
    """One branch of the chain, with the call that declares its flags."""

    function: Function  # the function around both
    call: ast.Call  # ``getopt.getopt(arguments, "ab:", ["all", "by="])``
    branch: ast.If  # what the option does
    flags: tuple[str, ...]  # as a user writes them
    takes_value: bool  # whether a value follows


def getopt_options(file: SourceFile) -> Iterator[GetoptOption]:
    """Yield the options of a file, without the one for help."""
    for call in ast.walk(file.tree):
        if not isinstance(call, ast.Call) or called_name(call) not in ("getopt", "gnu_getopt") or len(call.args) < 2:
            continue
        function, short = file.function(call), call.args[1]
        if function is None or not isinstance(short, ast.Constant) or not isinstance(short.value, str):
            continue
        declared = {f"-{flag}": bool(colon) for flag, colon in re.findall(r"(\w)(:?)", short.value)}
        declared |= {f"--{text.rstrip('=')}": text.endswith("=") for text in _texts(_long_names(call))}
        for node in ast.walk(function):
            flags = _flags(node.test) if isinstance(node, ast.If) else ()
            if isinstance(node, ast.If) and set(flags) & declared.keys() and "--help" not in flags:
                yield GetoptOption(function, call, node, flags, any(declared.get(flag, False) for flag in flags))


def _long_names(call: ast.Call) -> Sequence[ast.expr]:
    return call.args[2].elts if len(call.args) > 2 and isinstance(call.args[2], ast.List | ast.Tuple) else ()


def _texts(nodes: Sequence[ast.expr]) -> list[str]:
    return [item.value for item in nodes if isinstance(item, ast.Constant) and isinstance(item.value, str)]


def _flags(test: ast.expr) -> tuple[str, ...]:
    """Return the flags that a condition compares with; none for another condition."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.In | ast.Eq):
        return ()
    other = test.comparators[0]
    flags = _texts(other.elts if isinstance(other, ast.List | ast.Tuple | ast.Set) else [other])
    return tuple(flags) if all(flag.startswith("-") for flag in flags) else ()


def without_getopt_use(file: SourceFile, option: GetoptOption) -> bytes:
    """Return the source without the branch of the option, which is accepted and does nothing."""
    return apply_edits(file.source, without_branch(file, option.branch))


def without_getopt_option(file: SourceFile, option: GetoptOption) -> bytes:
    """Return the source without the branch, the declaration and the lines of the usage text."""
    edits = without_branch(file, option.branch)
    short = option.call.args[1]
    text = file.text(short)
    for flag in option.flags:
        if not flag.startswith("--"):
            text = text[0] + re.sub(rf"{re.escape(flag[1])}:?", "", text[1:], count=1)
    edits.append((file.span(short), text.encode()))
    names = _long_names(option.call)
    dropped = {number for number, text in enumerate(_texts(names)) if f"--{text.rstrip('=')}" in option.flags}
    if dropped:
        edits += items_without(file.source, [file.span(item) for item in names], dropped)
    for node in file.constants:
        lines = usage_lines(file.text(node), option.flags) if "\n" in str(node.value) else []
        edits += [_within(file, node, line) for line in lines]
    return apply_edits(file.source, edits)


def _within(file: SourceFile, node: ast.Constant, part: str) -> Edit:
    start = file.source.index(part.encode(), file.span(node)[0])
    return (start, start + len(part.encode())), b""


def usage_lines(text: str, flags: Sequence[str]) -> list[str]:
    """Return the entries of a usage text that start with one of the flags, with their deeper lines."""
    if "usage" not in text.lower() and "options" not in text.lower():
        return []
    spelled = "|".join(re.escape(flag) for flag in flags)
    entry = rf"(?m)^([ \t]*)(?:{spelled})(?=[ \t,=])[^\n]*\n(?:\1[ \t]+[^\s-][^\n]*\n)*"
    return [match.group() for match in re.finditer(entry, text)]
