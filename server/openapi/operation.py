"""Record of one operation in the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

JSON, TEXT, HTML = "application/json", "text/plain", "text/html"


@dataclass(frozen=True)
class Answer:
    """An answer of one status code."""

    description: str
    """When it is given."""
    shape: type[BaseModel] | Mapping[str, Any] | None = None
    """Its model, or its JSON schema; None for a text."""
    example: Any = None
    """An example of its body."""
    media_types: tuple[str, ...] = (JSON,)
    """The types that its body may have."""


@dataclass(frozen=True)
class Operation:
    """What the document says of one method of one path."""

    name: str
    """Its id: a verb and a noun, which generators of clients make a function's name of."""
    tag: str
    """Its group."""
    summary: str
    """What it does, in one line."""
    answers: Mapping[int, Answer]
    """Its answers by status code, without those that every operation may give."""
    description: str = ""
    """More about it."""
    body: type[BaseModel] | Mapping[str, Any] | None = None
    """The model or the JSON schema of its request body; None for an operation without one."""
    bodies: Mapping[str, Any] = field(default_factory=dict)
    """Examples of its request body by their names."""
    body_required: bool = True
    """Whether there must be a body."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Examples of its parameters in path and query."""
    cookie: bool = False
    """Whether it takes the cookie of a REST session."""
    token: bool = False
    """Whether it needs the token of a session as Bearer."""
    tokens: bool = False
    """Whether it takes tokens of sessions in a header of their own."""
    probe: bool = False
    """Whether it needs no key and has no rate limit."""
