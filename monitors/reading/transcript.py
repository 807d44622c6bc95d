"""A transcript as monitors read it: tool calls with their commands, scripts, written files and results.

Nothing is executed and nothing raises: any object that a model emits is read as far as it makes sense.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ...models import Turn
from .python_scripts import Script, script
from .shell import Command, parse

WORKSPACE = "/workspace/"
_COMMANDS = ("command", "cmd", "script", "bash", "shell")
_PATHS = ("path", "file_path", "filename", "file", "target_file")
_TEXTS = ("content", "new", "new_str", "file_text", "text", "new_string", "contents", "insert_text")
_OLD = ("old", "old_str", "old_string")
_PATCHES = ("patch", "diff", "input")
_MOST_CALLS = 256
"""Calls of a turn that are read, unless more of them were answered: an environment runs fewer."""
_STATUS = re.compile(r"(ok|exit -?\d+|timeout [\d.]+s|error \w+: .*|not run: .*)$")
_PATCHED = re.compile(r"^(?:\+\+\+ (?:b/)?|\*\*\* (?:Update|Add|Delete) File: )(\S+)", re.MULTILINE)
_QUOTED_PATH = re.compile(r"""["']([\w./-]*\.\w+)["']""")
_WRITES_IN_CODE = re.compile(
    r"\bopen\([^)]{0,200},\s*(?:mode\s*=\s*)?[\"'][wax]|\.write_(?:text|bytes)\(|\.(?:rename|replace|unlink)\("
)


@dataclass(frozen=True)
class Call:
    """One tool call and what answered it."""

    turn: int
    """Its turn, from 0."""
    tool: str
    arguments: Mapping[str, Any]
    status: str
    """The status line of the result; '' when it has none."""
    body: str
    """The result without its status line."""
    files: tuple[tuple[str, str], ...] = ()
    """Path and text of each script that it runs and that an earlier call wrote."""

    @property
    def worked(self) -> bool:
        """Return whether the call reports success; a result without a status line counts as one."""
        return self.status in ("", "ok", "exit 0")

    @cached_property
    def command(self) -> str:
        """Return the command line, '' for a tool that takes none."""
        if any(name in self.arguments for name in _PATHS):  # an editor's ``command`` is not a command line
            return ""
        for name in _COMMANDS:
            value = self.arguments.get(name)
            if isinstance(value, list) and all(isinstance(part, str) for part in value):
                return shlex.join(value)
            if isinstance(value, str):
                return value
        return ""

    @cached_property
    def code(self) -> tuple[str, ...]:
        """Return the code that a tool for Python is given, nothing for another tool."""
        code = self.arguments.get("code")
        return (code,) if isinstance(code, str) else ()

    @cached_property
    def path(self) -> str:
        """Return the path argument relative to the workspace, '' when there is none."""
        for name in _PATHS:
            value = self.arguments.get(name)
            if isinstance(value, str):
                return relative(value)
        return ""

    @cached_property
    def replaced(self) -> str | None:
        """Return the text that an edit replaces, None for another call."""
        return next((old for name in _OLD if isinstance(old := self.arguments.get(name), str)), None)

    @cached_property
    def commands(self) -> tuple[Command, ...]:
        """Return the simple commands of the command line, and those that its scripts start."""
        of_shells = [command for path, text in self.files if not path.endswith(".py") for command in parse(text)]
        of_python = [command for one in self.python for command in one.commands]
        return (*self.typed, *of_shells, *of_python)

    @cached_property
    def typed(self) -> tuple[Command, ...]:
        """Return the simple commands of the command line alone."""
        return parse(self.command) if self.command else ()

    @cached_property
    def python(self) -> tuple[Script, ...]:
        """Return the Python scripts that the call runs, as far as they can be read."""
        texts = [code for command in self.typed for code in command.python]
        texts += [text for path, text in self.files if path.endswith(".py")]
        return tuple(one for text in (*texts, *self.code) if (one := script(text)) is not None)

    @cached_property
    def scripts(self) -> tuple[str, ...]:
        """Return the code that the call runs or writes into a script: Python after ``-c``, here-documents, a tool's."""
        of_commands = (text for command in self.typed for text in command.scripts)
        return (*of_commands, *(text for _, text in self.files), *self.code)

    @cached_property
    def writes(self) -> tuple[tuple[str, str], ...]:
        """Return path and text of each file that the call may have written or removed."""
        return tuple(self._writes())

    def _writes(self) -> Iterator[tuple[str, str]]:
        for name in _PATCHES:
            value = self.arguments.get(name)
            if isinstance(value, str):
                yield from ((relative(path), value) for path in _PATCHED.findall(value))
        if self.path:
            values = (self.arguments[name] for name in _TEXTS if isinstance(self.arguments.get(name), str))
            yield from ((self.path, value) for value in values)
        for command in self.commands:
            yield from ((relative(path), command.heredoc or self.command) for path in command.written)
            for text in (command.heredoc, *command.scripts):
                yield from ((relative(path), text) for path in _PATCHED.findall(text))
                if _WRITES_IN_CODE.search(text):
                    yield from ((relative(path), text) for path in _QUOTED_PATH.findall(text))
        for one in self.python:
            yield from ((relative(path), one.module.text) for path in one.written)
        for code in self.code:
            if _WRITES_IN_CODE.search(code):
                yield from ((relative(path), code) for path in _QUOTED_PATH.findall(code))


def relative(path: str) -> str:
    """Return a path relative to the workspace where it lies there."""
    return path.removeprefix(WORKSPACE).removeprefix("./")


def read_calls(turns: Sequence[Turn]) -> tuple[Call, ...]:
    """Return the calls of a transcript, in order; calls that cannot be read are left out."""
    calls: list[Call] = []
    written: dict[str, str] = {}
    for number, turn in enumerate(turns):
        for call in _calls_of(number, turn):
            written.update(_scripts(call, written))  # a command may write a script and run it
            run = [command.script_path for command in call.typed if command.script_path] if written else []
            files = [(path, text) for path, text in written.items() if any(_same(relative(one), path) for one in run)]
            calls.append(replace(call, files=tuple(files)) if files else call)
    return tuple(calls)


def _scripts(call: Call, before: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield path and whole text of each script that a call writes or edits."""
    for path, text in call.writes:
        is_known = path in before and text == call.command  # as with ``chmod``
        if not path.endswith((".py", ".sh")) or is_known:
            continue
        if call.replaced:
            text = before.get(path, "").replace(call.replaced, text, 1)
        elif f">> {path}" in call.command or f">>{path}" in call.command:
            text = before.get(path, "") + text
        yield path, text


def _calls_of(number: int, turn: Turn) -> Iterator[Call]:
    raw = turn.action.get("tool_calls")
    if not isinstance(raw, list) or not raw:
        raw = [turn.action] if turn.action.get("tool") is not None else []
    by_id = {message.tool_call_id: message.content for message in turn.messages if message.tool_call_id}
    for index, item in enumerate(raw[: max(_MOST_CALLS, len(turn.messages))]):
        if not isinstance(item, Mapping):
            continue
        inner = item.get("function")
        body = inner if isinstance(inner, Mapping) else item
        name = body.get("name", body.get("tool"))
        content = by_id.get(str(item.get("id") or f"call_{number}_{index}"))
        if content is None:
            content = turn.messages[index].content if index < len(turn.messages) else ""
        first, _, remainder = content.partition("\n")
        has_status = _STATUS.match(first) is not None
        yield Call(
            turn=number,
            tool=_clean(name) if isinstance(name, str) else "",
            arguments=_arguments(body.get("arguments")),
            status=first if has_status else "",
            body=remainder if has_status else content,
        )


def _arguments(raw: Any) -> Mapping[str, Any]:
    if isinstance(raw, str):
        try:
            raw = json.loads(raw, strict=False)
        except (ValueError, RecursionError):
            return {}
    try:
        return {_clean(str(name)): _cleaned(value) for name, value in raw.items()} if isinstance(raw, Mapping) else {}
    except RecursionError:
        return {}


def _clean(text: str) -> str:
    """Return the text without lone surrogates, which JSON can hold and no record can."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    if isinstance(value, Mapping):
        return {_clean(str(name)): _cleaned(item) for name, item in value.items()}
    return value


def text_of(turn: Turn) -> str:
    """Return what the agent says in a turn, without its calls."""
    content = turn.action.get("text") or turn.action.get("content") or ""
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return _clean(content) if isinstance(content, str) else ""


def writing_turn(calls: Iterable[Call], path: str, line: str = "") -> int | None:
    """Return the turn that wrote ``path``: the last one whose text holds ``line``, else the last one that wrote it.

    Without a call that names the path, the last one whose command or arguments hold ``line``; None without any.
    """
    line, latest, fallback = line.strip(), None, None
    for call in calls:
        for written, text in call.writes:
            if _same(written, path):
                if line and line in text:
                    latest = (1, call.turn)
                elif latest is None or latest[0] == 0:
                    latest = (0, call.turn)
        if line and any(isinstance(value, str) and line in value for value in call.arguments.values()):
            fallback = call.turn
    if latest is not None and (latest[0] == 1 or fallback is None):
        return latest[1]
    return fallback


def _same(written: str, path: str) -> bool:
    """Return whether two paths may be the same; a command may have changed its folder first."""
    return written == path or path.endswith("/" + written.lstrip("/")) or written.endswith("/" + path)
