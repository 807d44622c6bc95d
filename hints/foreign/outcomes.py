"""How each call of a log went: by its status line, or, in logs without, by what the harness itself put there.

The order of the rules is the order of certainty: what the model wrote (no JSON, no such tool, arguments that break the
schema), what the harness reported (a flag, an exit code, a result object), and last the words of a result, where they
can only be the harness's, the shell's or the failing program's own. Text that a command or a file brought along is
never read for words: see ``words`` and ``shells``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..transcript.parsing import read_arguments
from ..transcript.past_turns import PastCall, PastTurn
from ..transcript.status_line import NONE, Status, is_status, read_status
from ..transcript.tool_roles import role
from ..transcript.tool_schemas import argument_problem, parameters_of
from . import shells, wrappers
from . import text_outcome as words
from .drafts import Draft, DraftTurn
from .limits import cut
from .objects import blamed
from .reports import Report, reporters, unheaded, untitled, usual_header

_PAGES = frozenset(
    "limit offset start_line end_line startLine endLine start end lines max_lines page view_range head tail".split()
)
_OF_COMMANDS = frozenset(("nonzero_exit", "file_not_found", "edit_failed"))
"""Kinds that the words of an object suggest, and that say something else of a shell's command."""
Schemas = Mapping[str, Mapping[str, Any]]


def settle(turns: Sequence[DraftTurn], tools: Sequence[Any] = (), *, trust: bool = False) -> list[PastTurn]:
    """Drafts as PastTurns, each call with its status. ``trust``: every result has a status line."""
    answered = [call for turn in turns for call in turn.calls if call.content is not None]
    if trust or (answered and all(is_status(call.content or "") for call in answered)):
        return [_turn(turn, [_by_status_line(call) for call in turn.calls]) for turn in turns]
    schemas = parameters_of(tools)
    for call in answered:
        call.content = _opened(call)
        call.error = words.wrapped(call.name, call.content, call.arguments)
    by_tool: dict[str, list[Draft]] = defaultdict(list)
    for call in answered:
        by_tool[call.name].append(call)
    for calls in by_tool.values():
        usual = usual_header([call.content or "" for call in calls])
        for call in calls:
            call.content = untitled(unheaded(call.content or "", usual))
    for call in (call for turn in turns for call in turn.calls):
        _type(call, schemas)
    report = {
        name: reporters(name, role(name, calls[0].arguments), [call.content or "" for call in calls], shells.shows)
        for name, calls in by_tool.items()
    }
    return [_turn(turn, [_judged(call, schemas, report.get(call.name)) for call in turn.calls]) for turn in turns]


def _opened(call: Draft) -> str:
    """A result's text without what is around it; MCP's flag goes to the call."""
    content = call.content or ""
    parts, failed = wrappers.flagged_parts(content)
    if call.failed is None:
        call.failed = failed
    return untitled(wrappers.plainly(wrappers.plain(parts)))


def _turn(turn: DraftTurn, calls: Sequence[PastCall]) -> PastTurn:
    return PastTurn(turn.text, tuple(calls), tuple(turn.notes))


def _by_status_line(call: Draft) -> PastCall:
    if call.content is None:
        return PastCall(call.id, call.name, NONE, call.arguments, call.problem, raw=call.raw)
    body = call.content.partition("\n")[2]
    return PastCall(call.id, call.name, read_status(call.content), call.arguments, call.problem, body, call.raw)


def _judged(call: Draft, schemas: Schemas, report: Report | None) -> PastCall:
    if call.content is None:
        return PastCall(call.id, call.name, NONE, call.arguments, call.problem, raw=call.raw)
    status, body = _reported(call, report)
    if status is None or status.word != "ok":
        certain = _certain(call, schemas)
        if certain:
            code, _, text = certain.partition(": ")
            status = Status("error", certain, code=code, message=text)
            return PastCall(call.id, call.name, status, call.arguments, certain, body, call.raw)
    if status is None:
        status = _by_words(call, known=call.name in schemas)
    if (
        status.word in ("ok", "exit")
        and not status.exit_code
        and cut(body, shows=_shows(call), pages=not _PAGES.isdisjoint(call.arguments))
    ):
        status = replace(status, code="output_limit")
    return PastCall(call.id, call.name, status, call.arguments, call.problem, body, call.raw)


def _shows(call: Draft) -> bool:
    kind = role(call.name, call.arguments)
    return kind == "reader" or (kind == "shell" and shells.shows(call.arguments))


def _reported(call: Draft, report: Report | None) -> tuple[Status | None, str]:
    """What the harness said of the call, and the result without it."""
    content = call.content or ""
    if content.startswith("not run: "):
        return Status("other", content.partition("\n")[0]), content
    if call.error and call.failed is None:
        line = call.error[:600]
        return Status("error", line, code=_kind_of(call, call.error), message=line), content
    found = report(content, call.arguments) if report is not None else None
    if found is not None and found[0].code in _OF_COMMANDS and role(call.name, call.arguments) == "shell":
        status = found[0]
        found = replace(status, code=shells.kind_of(status.message, call.arguments)), found[1]
    if call.failed is not None:
        return _flagged(call, content, found), content
    return found if found is not None else (None, content)


def _flagged(call: Draft, content: str, found: tuple[Status, str] | None) -> Status:
    """The outcome that the harness's own flag states; what kind of failure it was is in the words."""
    if not call.failed:
        return Status("ok", "")
    if found is not None and found[0].word in ("error", "timeout", "exit") and found[0].exit_code != 0:
        return found[0]
    said = call.error or content
    code = _kind_of(call, said)
    line = said.strip().partition("\n")[0][:600]
    return Status("error", line, code=code, message=line)


def _kind_of(call: Draft, said: str) -> str:
    """What kind of failure it was that the harness reports, from its words."""
    if role(call.name, call.arguments) == "shell":
        return shells.kind_of(said, call.arguments)
    return words.kind_of(call.name, call.arguments, said)


def _certain(call: Draft, schemas: Schemas) -> str:
    """``code: text`` for what is wrong with the call as the model wrote it; '' when nothing is."""
    if call.problem:
        return call.problem
    if not schemas or not call.name:
        return ""
    if call.name not in schemas:
        return f"tool_not_found: there is no tool {call.name!r}. The tools are: {', '.join(schemas)[:500]}"
    wrong = argument_problem(call.name, schemas[call.name], call.arguments)
    return f"invalid_args: {wrong}" if wrong else ""


def _by_words(call: Draft, *, known: bool) -> Status:
    """The last resort: a result of text alone."""
    content, kind = call.content or "", role(call.name, call.arguments)
    if not any(".json" in value for value in call.arguments.values() if isinstance(value, str)):
        content = blamed(content) or content
    if kind == "shell":
        return shells.verdict(call.arguments, content, call.name) or Status("ok", "")
    return words.verdict(call.name, kind, call.arguments, content, known=known) or Status("ok", "")


def _type(call: Draft, schemas: Schemas) -> None:
    """Arguments of a dialect that writes them all as text, as the tool's schema has them."""
    schema = schemas.get(call.name)
    if schema is None or not call.loose or call.problem:
        return
    properties = schema.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    if call.loose == "text":
        required = schema.get("required")
        names = list(required) if isinstance(required, list | tuple) and required else list(properties)
        if len(names) == 1 and isinstance(names[0], str):
            call.arguments = {names[0]: call.arguments["input"]}
        elif "input" not in properties:
            call.problem = "malformed_call: arguments must be a JSON object, got string"
            return
    for name, value in call.arguments.items():
        rule = properties.get(name)
        kind = rule.get("type") if isinstance(rule, Mapping) else None
        if isinstance(value, str) and kind in ("integer", "number", "boolean", "array", "object"):
            table, problem = read_arguments(f'{{"value": {value}}}')
            call.arguments[name] = value if problem else table.get("value", value)
