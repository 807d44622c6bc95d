"""The syntax of `etude`: whether a command line would be understood, without running it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import typer

PLACEHOLDER = re.compile(r"[A-Z][A-Z_]*|\.\.\.|.*\$.*")
"""A value that the reader replaces: ``N``, ``MODEL``, ``$URL``."""


def syntax_problem(arguments: Sequence[str]) -> str | None:
    """Return what the command line would refuse in these arguments, or None."""
    from etude.cli.app import app

    command: Any = typer.main.get_command(app)
    words = list(arguments)
    while hasattr(command, "commands"):
        names = [word for word in words if not word.startswith("-")]
        if not names:
            return _parsed(command, words)
        if names[0] not in command.commands:
            return f"there is no command {names[0]!r}"
        words.remove(names[0])
        command = command.commands[names[0]]
    return _parsed(command, words)


def _parsed(command: Any, words: list[str]) -> str | None:
    """Return the first refusal of one command's options and arguments."""
    if "--help" in words:
        return None
    context = typer.Context(command, info_name=command.name)
    try:
        values, rest, _ = command.make_parser(context).parse_args(args=words)
    except Exception as error:  # noqa: BLE001 - the parser's own errors are the finding
        return str(getattr(error, "message", "") or error)
    if rest:
        return f"unexpected arguments: {' '.join(map(str, rest))}"
    for parameter in command.params:
        problem = _value_problem(parameter, values.get(parameter.name), context)
        if problem:
            return problem
    return None


def _value_problem(parameter: Any, value: Any, context: Any) -> str | None:
    """Return why a parameter refuses its value; paths need not exist, and a placeholder stands for any value."""
    texts = value if isinstance(value, list | tuple) else [value]
    if value is None and not parameter.required:
        return None
    if not value and parameter.required:
        return f"{parameter.name} is missing"
    if "Path" in str(parameter.type_descriptor.annotation) or any(PLACEHOLDER.fullmatch(str(text)) for text in texts):
        return None
    try:
        parameter.process_value(context, value)
    except Exception as error:  # noqa: BLE001 - as above
        return f"{parameter.name}: {getattr(error, 'message', '') or error}"
    return None
