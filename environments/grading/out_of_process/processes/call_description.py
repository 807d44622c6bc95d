"""Calls and their answers as forms, in the tests' process and in the solution's.

The text of this file is also run inside sandboxes, after that of ``decoding.py``, on Python 3.8 and later.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # inside, the text of that file has defined these names already
    from ..values.own_state import raw_forms
    from ..values.places import canonical
    from .public_forms import public_call


class KeptBytes(io.BytesIO):
    """Bytes that a call prints; they have the name and the number of a standard stream, and cannot be closed."""

    def __init__(self, name: str, number: int) -> None:
        super().__init__()
        self.name, self.number = name, number

    def fileno(self) -> int:
        """Return the number of the standard stream."""
        return self.number

    def close(self) -> None:
        """Keep the bytes."""


def standard_stream(output_bytes: KeptBytes, errors: str) -> io.TextIOWrapper:
    """Return a stream like the standard one of a process, so that code sees no difference."""
    stream: Any = io.TextIOWrapper(output_bytes, "utf-8", errors, newline="", write_through=True)
    stream.mode = "w"
    return stream


def describe_answer(values: Any, number: int, call: dict[str, Any], sent: list[Any], outcome: Any) -> tuple[Any, Any]:
    """Return the answer to a call as forms, and its result to pass on. Raises CannotEncode.

    In the answer, ``after`` has the forms of the arguments after the call, where the call changed any of them, and
    ``raw`` the attributes of objects whose class defines itself how they are pickled (see ``own_state.py``).
    """
    result, error, (printed, printed_errors) = outcome
    values.begin(answering=str(number))
    values.number_first(result)
    after = [None if isinstance(item, types.GeneratorType) else values.encode(item) for item in sent]
    is_changed = canonical(after) != canonical([*call["arguments"], *call["keywords"].values()])
    if not is_changed:
        values.classes = {}
    answer = {"after": after if is_changed else None, "error": None, "result": None, "printed": printed}
    if printed_errors:
        answer["printed_errors"] = printed_errors
    if error is not None:
        answer["error"] = values.exception(error)
    else:
        answer["result"], result = values.encode_result(result)
    if values.classes:
        answer["classes"] = values.classes
    if values.carriers:
        answer["raw"] = [raw_forms(values, number, value) for number, value in values.carriers]
    return answer, result


def without_defaults(function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Return the arguments without default values: a default such as ``object()`` has no equal in another process."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError):
        return arguments, keywords
    kinds = inspect.Parameter
    if any(item.kind is kinds.VAR_POSITIONAL for item in parameters):
        has_more = len(arguments) > sum(item.kind in (0, 1) for item in parameters)
        if has_more:
            return arguments, keywords
    if len(arguments) > len(parameters):
        return arguments, keywords
    named = dict(keywords)
    for item in parameters:
        if item.kind is kinds.KEYWORD_ONLY and item.name in named and named[item.name] is item.default:
            del named[item.name]
    positional: list[Any] = []
    for number, value in enumerate(arguments):
        item = parameters[number]
        is_default = item.default is not kinds.empty and value is item.default
        if item.kind is kinds.POSITIONAL_ONLY or (len(positional) == number and not is_default):
            positional.append(value)
        elif not is_default:
            named[item.name] = value
    return tuple(positional), named


def same_call(expected: dict[str, Any], call: dict[str, Any], recorded_names: Any = None) -> bool:
    """Return whether two calls have the same target and arguments.

    With ``recorded_names``, only the attributes in a record count (see ``public_forms.py``).
    """
    parts = ("target", "arguments", "keywords")
    if canonical([expected.get(part) for part in parts]) == canonical([call.get(part) for part in parts]):
        return True
    try:
        return bool(recorded_names) and public_call(expected, recorded_names) == public_call(call, recorded_names)
    except (KeyError, RecursionError):  # arguments without a form, or nested too deeply
        return False


def printed_outcome(function: Any, arguments: Any, keywords: Any) -> tuple[Any, Any, tuple[str, str]]:
    """Call a function; return its result, its exception and what it printed on both streams. Print that too."""
    output_bytes, error_bytes, result, failure = KeptBytes("<stdout>", 1), KeptBytes("<stderr>", 2), None, None
    output, errors = standard_stream(output_bytes, "surrogateescape"), standard_stream(error_bytes, "backslashreplace")
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            result = function(*arguments, **keywords)
        except (Exception, SystemExit) as error:  # noqa: BLE001  the code's own
            failure = error
    printed, printed_errors = (
        item.getvalue().decode("utf-8", "surrogateescape") for item in (output_bytes, error_bytes)
    )
    if printed:
        sys.stdout.write(printed)
    if printed_errors:
        sys.stderr.write(printed_errors)
    return result, failure, (printed, printed_errors)
