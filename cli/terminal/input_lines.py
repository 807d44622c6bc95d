"""What a user types, as the calls of an agent.

A line is ``TOOL key=value ...``, ``TOOL {JSON}``, or ``TOOL text``: then the text is the tool's first required argument
(or its first one), and ``key=value`` of other arguments may follow. A value ``<<WORD`` is the following lines up to
WORD. What is wrong with the call is left to the environment, which answers as it answers an agent.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...environments.actions import Action, call, turn
from ...errors import UnreadableLine
from ...hints.transcript.tool_schemas import parameters_of

_KEY = re.compile(r"(\w+)=")
_LAST_PAIR = re.compile(r"^(?P<text>.*\S)\s+(?P<key>\w+)=(?P<value>\S+)$", re.DOTALL)
_BLOCK = re.compile(r"<<(\w+)$")


def action_of(line: str, tools: Sequence[Mapping[str, Any]], more: Callable[[], str]) -> Action:
    """Return the turn that a line stands for; ``more`` reads a further line. Raises UnreadableLine and EOFError."""
    name, _, text = line.strip().partition(" ")
    text = text.strip()
    schema = parameters_of([dict(tool) for tool in tools]).get(name, {})
    properties: dict[str, Any] = dict(schema.get("properties") or {})
    if text.startswith("{"):
        return turn("", {"name": name, "arguments": text})
    key = _KEY.match(text)
    if key and (key[1] in properties or not properties):
        return turn("", call(name, **_pairs(text, properties, more)))
    return turn("", call(name, **_positional(text, schema, properties, more)))


def usage(tool: Mapping[str, Any]) -> str:
    """Return a tool's name with its arguments, those that may be left out in brackets."""
    function = tool["function"]
    schema = function.get("parameters") or {}
    required = schema.get("required") or ()
    names = [name if name in required else f"[{name}]" for name in schema.get("properties") or {}]
    return " ".join([function["name"], *names])


def _pairs(text: str, properties: Mapping[str, Any], more: Callable[[], str]) -> dict[str, Any]:
    try:
        words = shlex.split(text)
    except ValueError:
        raise UnreadableLine("a quote is not closed; close it, or put the text into a block: key=<<END") from None
    arguments: dict[str, Any] = {}
    for word in words:
        key = _KEY.match(word)
        if key is None:
            raise UnreadableLine(f"{word!r} is not key=value; put quotes around a value that holds spaces")
        arguments[key[1]] = _value(word[key.end() :], properties.get(key[1], {}), more)
    return arguments


def _positional(
    text: str, schema: Mapping[str, Any], properties: Mapping[str, Any], more: Callable[[], str]
) -> dict[str, Any]:
    main = next(iter([*(schema.get("required") or ()), *properties]), "")
    if not text:
        return {}
    if not main:
        return {"text": text}
    arguments: dict[str, Any] = {}
    while (pair := _LAST_PAIR.match(text)) and pair["key"] in properties and pair["key"] != main:
        arguments[pair["key"]] = _value(pair["value"], properties[pair["key"]], more)
        text = pair["text"]
    block = _BLOCK.search(text)
    if block and block.start():  # a here-document of the shell: it stays part of the command
        text = f"{text}\n{_block(block[1], more)}{block[1]}\n"
        return {main: text, **arguments}
    return {main: _value(text, properties.get(main, {}), more), **arguments}


def _value(text: str, schema: Mapping[str, Any], more: Callable[[], str]) -> Any:
    """Return a value of the type that the schema asks for, or else the text."""
    block = _BLOCK.fullmatch(text)
    if block:
        return _block(block[1], more)
    if schema.get("type") == "string":
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _block(end: str, more: Callable[[], str]) -> str:
    lines = []
    while (line := more()) != end:
        lines.append(f"{line}\n")
    return "".join(lines)
