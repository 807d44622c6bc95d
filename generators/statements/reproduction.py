"""Reproductions: a failing call as a console session, as a title, and in a sentence."""

from __future__ import annotations

import ast
import random
import re

from ..base import CallResult, FailingCall

MAX_TITLE_CALL, MAX_TITLE_VALUE = 60, 28
MAX_INLINE = 70


def console(call: FailingCall, result: CallResult) -> str:
    """Return the session as a console shows it when the call gives ``result``, as a fenced block."""
    lines = [typed(line) for line in call.imports]
    for item in call.setup:
        lines += [f">>> {item.text}", *item.shown.splitlines()]
    lines += [f">>> {call.call}", *shown_lines(result)]
    return fenced("\n".join(lines), "pycon")


def typed(text: str) -> str:
    """Return what a user types, a line or a function of several lines, with the prompts of a console."""
    first, *more = text.splitlines()
    return "\n".join([f">>> {first}", *(f"... {line}" for line in more)])


def shown_lines(result: CallResult) -> list[str]:
    """Return what a console shows for a result."""
    lines = result.printed.splitlines()
    if result.kind == "raises":
        lines += ["Traceback (most recent call last):", "  ..."]
    return lines + result.text.splitlines()


def fenced(text: str, language: str = "") -> str:
    """Return the text as a fenced block; the fence is longer than any in the text."""
    fence = max(["``", *re.findall(r"`{3,}", text)], key=len) + "`"
    return f"{fence}{language}\n{text}\n{fence}"


def code(text: str) -> str:
    """Return the text as inline code."""
    if "`" not in text:
        return f"`{text}`"
    fence = max(re.findall("`+", text), key=len) + "`"
    return f"{fence} {text} {fence}"


def is_inline(result: CallResult) -> bool:
    """Return whether a result fits into a sentence."""
    return not result.printed and len(result.text) <= MAX_INLINE and "\n" not in result.text


def should(result: CallResult) -> str:
    """Return what the call should do, as the end of a sentence that starts with "it should"."""
    if result.kind == "raises":
        return f"raise {code(result.text)}"
    return f"return {code(result.text)}" if result.kind == "value" else "return nothing (`None`)"


def wish(call: FailingCall) -> str:
    """Return what the call should do, where that can be said in a sentence; empty where it cannot."""
    if not is_inline(call.expected):
        return ""
    if call.actual.printed:
        return "print nothing" + (f" and {should(call.expected)}" if call.expected.kind != "nothing" else "")
    return should(call.expected)


def does(result: CallResult) -> str:
    """Return what the call does, as the end of a sentence that starts with the call."""
    if result.printed:
        return "prints the wrong thing"
    if result.kind == "raises":
        return f"raises {code(result.text)}"
    return f"returns {code(result.text)}" if result.kind == "value" else "returns `None`"


def error_name(result: CallResult) -> str:
    """Return the name of the exception without its module."""
    return result.text.partition(":")[0].split("\n")[0].rpartition(".")[2]


def short_call(call: FailingCall) -> str:
    """Return the call for a title; a long one has ``...`` for its arguments."""
    if len(call.call) <= MAX_TITLE_CALL:
        return call.call
    tree = ast.parse(call.call).body[0]
    node = tree.value if isinstance(tree, ast.Expr) else None
    if isinstance(node, ast.Call) and len(name := ast.unparse(node.func)) <= MAX_TITLE_CALL:
        return f"{name}(...)"
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Call):
        return f"{ast.unparse(node.value.func)}(...).{node.attr}"
    return f"{call.call[: MAX_TITLE_CALL - 3]}..."


def title(call: FailingCall, draw: random.Random) -> str:
    """Return a title that names the symptom."""
    where, verb = code(short_call(call)), _verb(call.call)
    expected, actual = call.expected, call.actual
    if actual.printed or expected.printed:
        return draw.choice([f"Wrong output of {where}", f"{where} prints the wrong thing"])
    if actual.kind == "raises":
        error = code(error_name(actual))
        if expected.kind == "raises":
            if error_name(expected) == error_name(actual):
                return draw.choice([f"Wrong message of the {error} from {where}", f"{where}: misleading {error}"])
            right = code(error_name(expected))
            return draw.choice([f"{where} raises {error} instead of {right}", f"{where}: {error}, not {right}"])
        return draw.choice([f"{where} raises {error}", f"{error} from {where}", f"{where} fails with {error}"])
    value, right_value = _short_value(actual), _short_value(expected)
    if expected.kind == "raises":
        error = code(error_name(expected))
        options = [f"{where} does not raise {error}", f"No {error} from {where}"]
        return draw.choice([*options, f"{where} {verb} {value} instead of raising {error}"] if value else options)
    right_value = (
        code(expected.text or "None") if len(expected.text) <= MAX_TITLE_VALUE and "\n" not in expected.text else ""
    )
    if value and right_value:
        return draw.choice(
            [f"{where} {verb} {value} instead of {right_value}", f"{where} {verb} {value}, not {right_value}"]
        )
    if value:
        return f"{where} {verb} {value}"
    return draw.choice([f"Wrong result of {where}", f"{where} {verb} the wrong value"])


def _short_value(result: CallResult) -> str:
    """Return a value as inline code; empty for one that is too long for a title."""
    return code(result.text or "None") if len(result.text) <= MAX_TITLE_VALUE and "\n" not in result.text else ""


def _verb(call: str) -> str:
    tree = ast.parse(call).body[0]
    node = tree.value if isinstance(tree, ast.Expr) else None
    return "returns" if isinstance(node, ast.Call) else "gives" if isinstance(node, ast.BinOp) else "is"
