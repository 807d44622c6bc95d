"""Knobs: the options of a generator, declared as a dataclass and checked by pydantic.

@dataclass(frozen=True)
class Knobs:
    min_lines: Annotated[int, Field(ge=1)] = 5
    \"\"\"Fewest lines that a function may have.\"\"\"
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from ..errors import GeneratorError
from ..registry import did_you_mean

K = TypeVar("K")
_KINDS = {"int": "an int", "float": "a number", "bool": "true or false"}


def parse_knobs(kind: type[K], values: Mapping[str, Any]) -> K:
    """Return the knobs ``kind`` (a dataclass) from ``name=value`` pairs; strings are converted.

    Raises GeneratorError for an unknown name, offering the nearest one, and for a value that does not fit.
    """
    check_knob_names(values, [kind])
    try:
        return TypeAdapter(kind).validate_python(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        raise GeneratorError(_problem(name, first["type"], first.get("ctx", {}), values[name])) from None


def check_knob_names(names: Iterable[str], kinds: Sequence[type[Any]]) -> None:
    """Raise GeneratorError for a knob that none of the dataclasses ``kinds`` has."""
    known_names = {item.name for kind in kinds for item in fields(kind)}
    for name in names:
        if name not in known_names:
            raise GeneratorError(did_you_mean("knob", name, known_names))


def select_knobs(kind: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of ``values`` that are knobs of ``kind``."""
    names = {item.name for item in fields(kind)}
    return {name: value for name, value in values.items() if name in names}


def _problem(name: str, error_type: str, context: Mapping[str, Any], value: Any) -> str:
    """Return one line: which knob is wrong, and what to give instead."""
    if error_type == "literal_error":
        choices = str(context["expected"]).replace("'", "").replace(" or ", ", ")
        return f"knob {name} cannot be {value!r}; choose one of {choices}"
    limits = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
    for key, words in limits.items():
        if key in context:
            return f"knob {name} must be {words} {context[key]}, got {value!r}"
    expected = _KINDS.get(error_type.split("_")[0], "a text")
    return f"knob {name} must be {expected}, got {value!r}"
