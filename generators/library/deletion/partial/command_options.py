"""Options of command lines that a file declares with argparse, click or getopt."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from .....errors import Rejected
from ....python.source import Edit, apply_edits, line_span
from ..removal.source_file import FUNCTIONS, Function, SourceFile
from .calls_of_tests import called_name
from .getopt_options import GetoptOption, getopt_options, usage_lines, without_getopt_option, without_getopt_use
from .parameters import Parameter, without_handling, without_parameter_itself
from .rewriting.blocks import without_statements
from .rewriting.constant_values import UNKNOWN, value_of
from .rewriting.fixed_name import with_fixed_name

_NAMESPACES = {"args", "arguments", "options", "opts", "namespace", "ns", "parsed", "parsed_args", "opt"}
_PARSING = {"parse_args", "parse_known_args", "parse_intermixed_args"}
_FIXED_VALUES = {"store_true": "False", "store_false": "True"}
_OTHER_ACTIONS = {"version", "help", "parsers"}
_CLICK_EXTRAS = {"callback", "prompt", "required", "expose_value", "is_eager", "cls"}


@dataclass(frozen=True)
class CommandOption:
    """One option, with what a statement says about it."""

    library: Literal["argparse", "click", "getopt"]
    function: str  # the function that declares or receives it; empty for module level
    flags: tuple[str, ...]  # as a user writes them
    name: str  # its attribute of the namespace, or its parameter
    default: str  # source of the value without the option
    value: Any  # the same, see ``value_of``
    declaration: ast.Call  # the call that declares it
    settings: tuple[tuple[str, str], ...] = ()  # keywords of the declaration, as the source writes them
    getopt: GetoptOption | None = None  # where getopt declares it
    usage_text: str = ""  # lines of a usage text about it

    def setting(self, name: str) -> str:
        """Return a keyword of the declaration as text: a string without its quotes; empty when it is absent."""
        node = next((item.value for item in self.declaration.keywords if item.arg == name), None)
        if node is None:
            return ""
        return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ast.unparse(node)

    @property
    def help_text(self) -> str:
        """Return what the command says about the option; empty when it says nothing."""
        return self.usage_text or self.setting("help")

    @property
    def takes_value(self) -> bool:
        """Return whether the option is followed by a value."""
        if self.getopt is not None:
            return self.getopt.takes_value
        if self.library == "argparse":
            return self.setting("action") in ("", "store", "append", "extend")
        return (
            self.setting("is_flag") != "True"
            and self.setting("count") != "True"
            and len(self.flags) == len([flag for flag in self.flags if not flag.startswith("--no-")])
        )


def command_options(file: SourceFile) -> Iterator[CommandOption]:
    """Yield the options of a file whose value without the option is known."""
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Call) and called_name(node) == "add_argument":
            option = _of_argparse(file, node)
            if option is not None:
                yield option
        elif isinstance(node, FUNCTIONS):
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and called_name(mark) == "option":
                    option = _of_click(file, node, mark)
                    if option is not None:
                        yield option

    for item in getopt_options(file):
        name = max(item.flags, key=len).lstrip("-").replace("-", "_")
        texts = [line for node in file.constants for line in usage_lines(str(node.value), item.flags)]
        usage = textwrap.dedent("".join(texts)).strip()
        yield CommandOption("getopt", item.function.name, item.flags, name, "", None, item.call, (), item, usage)


def _texts(call: ast.Call) -> list[str]:
    return [item.value for item in call.args if isinstance(item, ast.Constant) and isinstance(item.value, str)]


def _settings(file: SourceFile, call: ast.Call) -> tuple[tuple[str, str], ...]:
    return tuple((item.arg, file.text(item.value)) for item in call.keywords if item.arg)


def _of_argparse(file: SourceFile, call: ast.Call) -> CommandOption | None:
    flags, settings = _texts(call), dict(_settings(file, call))
    action = settings.get("action", "").strip("'\"")
    if len(flags) != len(call.args) or not flags or not all(flag.startswith("-") for flag in flags):
        return None
    if not isinstance(file.parents[call], ast.Expr) or action in _OTHER_ACTIONS or settings.get("required") == "True":
        return None
    name = settings.get("dest", "").strip("'\"")
    name = name or next((flag for flag in flags if flag.startswith("--")), flags[0]).lstrip("-").replace("-", "_")
    default = settings.get("default", _FIXED_VALUES.get(action, "None"))
    value = value_of(ast.parse(default, mode="eval").body)
    converted = isinstance(value, str) and settings.get("type", "str") != "str"
    if value is UNKNOWN or converted or not name.isidentifier() or any(item.arg is None for item in call.keywords):
        return None
    function = file.function(call)
    owner = file.owner(function) if function is not None else None
    where = (f"{owner.name}." if owner else "") + (function.name if function else "")
    return CommandOption("argparse", where, tuple(flags), name, default, value, call, tuple(settings.items()))


def _of_click(file: SourceFile, function: Function, call: ast.Call) -> CommandOption | None:
    texts, settings = _texts(call), dict(_settings(file, call))
    flags = [flag.strip() for text in texts if text.startswith("-") for flag in text.split("/")]
    named = [text for text in texts if not text.startswith("-")]
    longest = max((flag for flag in flags if not flag.startswith("--no-")), key=len, default="")
    name = named[0] if named else longest.lstrip("-").replace("-", "_").lower()
    parameters = {item.arg for item in (*function.args.args, *function.args.kwonlyargs)}
    if not flags or name not in parameters or _CLICK_EXTRAS & settings.keys() or "File" in settings.get("type", ""):
        return None
    is_switch = settings.get("is_flag") == "True" or any("/" in text for text in texts)
    missing = "False" if is_switch else "0" if settings.get("count") == "True" else "None"
    default = settings.get("default", "()" if settings.get("multiple") == "True" else missing)
    value = value_of(ast.parse(default, mode="eval").body)
    is_text = settings.get("type", "str") == "str" or "Choice" in settings["type"] or "Path" in settings["type"]
    if value is UNKNOWN or isinstance(value, str) and not is_text or file.function(function) not in (None, function):
        return None
    owner = file.owner(function)
    where = f"{owner.name}.{function.name}" if owner else function.name
    return CommandOption("click", where, tuple(flags), name, default, value, call, tuple(settings.items()))


def without_use(file: SourceFile, option: CommandOption) -> bytes:
    """Return the source in which the option is accepted and does nothing. Raises Rejected when that is inexact."""
    if option.getopt is not None:
        return without_getopt_use(file, option.getopt)
    if option.library == "click":
        return without_handling(file, _parameter(option))
    ignored = with_fixed_name(
        file.path,
        file.dotted,
        file.source,
        lambda current: _reads(current, option.name),
        option.value,
        option.default.encode(),
    )
    if ignored == file.source and not _passes_all(file):
        raise Rejected("v0_not_exact", f"{file.path} does not read {option.name}")
    return ignored


def without_option(file: SourceFile, source: bytes, option: CommandOption) -> bytes:
    """Return a source from ``without_use`` without the declaration of the option."""
    if option.getopt is not None:
        return without_getopt_option(file, option.getopt)
    current = SourceFile(file.path, source, file.dotted)
    twin = next(
        item for item in command_options(current) if (item.function, item.flags) == (option.function, option.flags)
    )
    if option.library == "argparse":
        return apply_edits(source, without_statements(current, [current.statement(twin.declaration)]))
    start, end = line_span(source, current.span(twin.declaration))
    edits: list[Edit] = [((start, end), b"")]
    return without_parameter_itself(file.path, apply_edits(source, edits), _parameter(option))[0]


def _parameter(option: CommandOption) -> Parameter:
    return Parameter(option.function, option.name, option.default, option.value, None)


def _namespaces(file: SourceFile) -> set[str]:
    """Return the names that hold parsed arguments."""
    names = set(_NAMESPACES)
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and called_name(node.value) in _PARSING:
            targets = node.targets[0].elts[:1] if isinstance(node.targets[0], ast.Tuple) else node.targets
            names |= {item.id for item in targets if isinstance(item, ast.Name)}
    return names


def _reads(file: SourceFile, name: str) -> list[ast.expr]:
    """Return the reads of an attribute of the parsed arguments. Raises Rejected when the attribute is written too."""
    names, reads = _namespaces(file), list[ast.expr]()
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.value, ast.Name | ast.Call):
            held = node.value.id in names if isinstance(node.value, ast.Name) else called_name(node.value) in _PARSING
            if held and not isinstance(node.ctx, ast.Load):
                raise Rejected("v0_not_exact", f"{file.path}:{node.lineno} writes {name}")
            if held:
                reads.append(node)
        elif isinstance(node, ast.Call) and called_name(node) in ("getattr", "setattr", "set_defaults"):
            if any(isinstance(item, ast.Constant) and item.value == name for item in node.args):
                raise Rejected("v0_not_exact", f"{file.path}:{node.lineno} uses {name} by its text")
            if any(item.arg == name for item in node.keywords):
                raise Rejected("v0_not_exact", f"{file.path}:{node.lineno} sets {name}")
    return sorted(reads, key=file.span)


def _passes_all(file: SourceFile) -> bool:
    """Return whether the parsed arguments leave the function as a whole, as in ``vars(args)``."""
    return bool(re.search(rb"\bvars\(|\.__dict__\b", file.source))


def uses_elsewhere(files: Sequence[SourceFile], file: SourceFile, option: CommandOption) -> bool:
    """Return whether another file reads the option from an object that may hold parsed arguments."""
    return option.library == "argparse" and any(
        isinstance(node, ast.Attribute)
        and node.attr == option.name
        and isinstance(node.value, ast.Name)
        and node.value.id in _NAMESPACES
        for other in files
        if other is not file
        for node in ast.walk(other.tree)
    )
