"""The outcome of each call of a log: its status line, or, in logs without status lines, the strongest evidence.

Order of evidence: what the model wrote (malformed, unknown tool, arguments against the schema), what the harness
reported (a flag, an exit code, a result object), and last the words of a result.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..transcript.parsing import clean
from ..transcript.past_turns import PastCall, PastTurn
from ..transcript.status_line import NONE, Status, is_status, read_status
from ..transcript.tool_roles import PRINTING, role
from ..transcript.tool_schemas import argument_problem, parameters_of, required_names, typed_arguments
from . import result_words
from .drafts import DraftCall, DraftTurn
from .error_patterns import classify
from .exit_codes import ExitReport, report_after, report_before, used_readers
from .result_objects import KILLED, exit_status, parse_object, stated_outcome

_COLOURS = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
_WRAPPED = re.compile(
    r"\s*(?:<(?P<tag>tool_(?:result|output|response)|result|output|observation|(?P<error>(?:tool_)?(?:use_)?error))"
    r"(?P<failed> (?:status|type)=\"error\")?>\n?(?P<inner>.*?)\n?</(?P=tag)>"
    r"|<system>(?P<system>ERROR\b.*?)</system>|```\w*\n(?P<fenced>(?:(?!```).)*?)\n?```)\s*",
    re.DOTALL,
)
_TITLE = re.compile(
    r"\s*(?:(?:tool |command |execution )?(?:observation|result|output)s?:[ \t]*\n?|\[\w[^\n\]]{0,300}\] Result:\s*)",
    re.IGNORECASE,
)
_OUTPUT_KEYS = frozenset(("output", "result", "stdout", "content", "response"))
_SHELL_KEYS = frozenset("stdout stderr output out returncode return_code exit_code exitCode success metadata".split())
Schemas = Mapping[str, Mapping[str, Any]]
Reporter = Callable[[str, Mapping[str, Any]], tuple[Status, str] | None]
Judge = Callable[[DraftCall], PastCall]


def settle(turns: Sequence[DraftTurn], tools: Sequence[Any] = (), *, has_status_lines: bool = False) -> list[PastTurn]:
    """Return drafts as PastTurns, each call with its status.

    ``has_status_lines`` says that every result has one; otherwise that is found out. ``tools`` are the schemas that
    the agent had.
    """
    answered = [call for turn in turns for call in turn.calls if call.content is not None]
    if has_status_lines or (answered and all(is_status(call.content or "") for call in answered)):
        judge: Judge = _with_status_line
    else:
        judge = _judge(turns, answered, parameters_of(tools))
    return [PastTurn(turn.text, tuple(map(judge, turn.calls)), tuple(turn.notes)) for turn in turns]


def _judge(turns: Sequence[DraftTurn], answered: Sequence[DraftCall], schemas: Schemas) -> Judge:
    """Return the function that judges the calls of a log without status lines, made from all of its results."""
    by_tool: dict[str, list[DraftCall]] = defaultdict(list)
    for call in answered:
        _unwrap(call)
        by_tool[call.name].append(call)
    reads_objects = {name: _reports_in_objects(name, calls) for name, calls in by_tool.items()}
    for calls in by_tool.values():
        _unwrap_outputs(calls)
    for call in (call for turn in turns for call in turn.calls):
        _type_arguments(call, schemas)
    reporters = {name: _reporter(name, calls, reads_objects[name]) for name, calls in by_tool.items()}
    return lambda call: _judged(call, schemas, reporters.get(call.name))


def _with_status_line(call: DraftCall) -> PastCall:
    status = NONE if call.content is None else read_status(call.content)
    body = (call.content or "").partition("\n")[2]
    return PastCall(call.id, call.name, status, call.arguments, call.problem, body, call.raw)


def _unwrap(call: DraftCall) -> None:
    """Remove what a harness puts around a result: colours, MCP's object (whose flag is kept), a tag, a title."""
    content = _COLOURS.sub("", call.content or "").replace("\r\n", "\n")
    if content[:1] in '{["' and '"text"' in content or content[:1] == '"':
        content, failed = _parts(content)
        call.failed = failed if call.failed is None else call.failed
    title = _TITLE.match(content)
    content = content[title.end() :] if title else content
    wrapped = _WRAPPED.fullmatch(content)
    if wrapped is not None:
        content = wrapped["inner"] or wrapped["system"] or wrapped["fenced"] or ""
        call.failed = True if wrapped["error"] or wrapped["failed"] or wrapped["system"] else call.failed
    call.content = content


def _unwrap_outputs(calls: Sequence[DraftCall]) -> None:
    """Remove the object around each output of a tool whose objects say nothing else about its calls that ran."""
    tables = [parse_object(call.content or "") for call in calls]
    outputs = [table for table in tables if table is not None and not _OUTPUT_KEYS.isdisjoint(table)]
    if any(len(table) > 1 for table in outputs):
        return
    for call, table in zip(calls, tables, strict=True):
        text = next(iter(table.values())) if table in outputs and table else None
        if isinstance(text, str) and len(text.split()) > 1:  # one word may be a state, such as "failed"
            call.content = clean(text)


def _parts(content: str) -> tuple[str, bool | None]:
    """Return the text of a JSON string, of message parts, or of MCP's ``{"content": [...], "isError": ...}``."""
    try:
        value = json.loads(content, strict=False)
    except (ValueError, RecursionError):
        return content, None
    failed = None
    if isinstance(value, dict) and not set(value) - {"content", "isError", "_meta", "structuredContent"}:
        failed = value.get("isError") if isinstance(value.get("isError"), bool) else None
        value = value.get("content")
    if isinstance(value, list) and all(isinstance(part, dict) and "text" in part for part in value):
        return clean("\n".join(str(part["text"]) for part in value)), failed
    return (clean(value) if isinstance(value, str) else content), failed


def _type_arguments(call: DraftCall, schemas: Schemas) -> None:
    """Give arguments that the format writes as text their names and types by the tool's schema."""
    schema = schemas.get(call.name)
    if schema is None or not call.untyped or call.problem:
        return
    if call.untyped == "text":
        properties = schema["properties"] if isinstance(schema.get("properties"), Mapping) else {}
        names = required_names(schema) or list(properties)
        if len(names) != 1 and "input" not in properties:
            call.problem = "malformed_call: arguments must be a JSON object, got string"
            return
        call.arguments = {names[0]: call.arguments["input"]} if len(names) == 1 else call.arguments
    call.arguments = typed_arguments(schema, call.arguments)


def _reports_in_objects(name: str, calls: Sequence[DraftCall]) -> bool:
    """Return whether objects among the results of a tool are reports, and not something that it prints."""
    objects = sum(parse_object(call.content or "") is not None for call in calls)
    return role(name, calls[0].arguments) not in PRINTING or objects * 2 > len(calls)


def _reporter(name: str, calls: Sequence[DraftCall], use_objects: bool) -> Reporter:
    """Return the function that reads the reports of one tool, made from all of the tool's results."""
    readers = used_readers([call.content or "" for call in calls])

    def report(content: str, arguments: Mapping[str, Any]) -> tuple[Status, str] | None:
        table = parse_object(content) if use_objects else None
        if table is not None and (not _SHELL_KEYS.isdisjoint(table) or not result_words.shows_text(arguments)):
            return stated_outcome(table, name, arguments)
        exit_report = next((report for reader in readers if (report := reader(content)) is not None), None)
        return None if exit_report is None else (_of_exit(exit_report), exit_report.output)

    return report


def _of_exit(report: ExitReport) -> Status:
    last = report.output.strip().rpartition("\n")[2]
    if report.code and classify(report.lines if report.code not in KILLED else f"{report.lines} {last}") == "timeout":
        return Status("timeout", report.lines.strip()[:600])
    return exit_status(report.code)


def _judged(call: DraftCall, schemas: Schemas, reporter: Reporter | None) -> PastCall:
    if call.content is None:
        return PastCall(call.id, call.name, NONE, call.arguments, call.problem, raw=call.raw)
    status, body = _reported(call, reporter)
    certain = _certain_problem(call, schemas) if status is None or status.word != "ok" else ""
    if certain:
        code, _, text = certain.partition(": ")
        status = Status("error", certain, code=code, message=text)
        return PastCall(call.id, call.name, status, call.arguments, certain, body, call.raw)
    if status is None:
        status = result_words.failure(call.name, role(call.name, call.arguments), call.arguments, body)
    status = status or Status("ok", "")
    if status.word in ("ok", "exit") and not status.exit_code and result_words.was_cut(body):
        status = replace(status, code="output_limit")
    return PastCall(call.id, call.name, status, call.arguments, call.problem, body, call.raw)


def _reported(call: DraftCall, reporter: Reporter | None) -> tuple[Status | None, str]:
    """Return what the harness reported of the call, and the result without the report."""
    content, line = call.content or "", (call.content or "").strip().partition("\n")[0][:600]
    if content.startswith("not run: "):
        return Status("other", line), content
    if call.failed is False:
        return Status("ok", ""), content
    outcome = reporter(content, call.arguments) if reporter is not None else None
    if call.failed and (outcome is None or outcome[0].word == "ok"):
        outcome = _flagged_exit(call, content) or (
            Status("error", line, code=classify(content, call.name, call.arguments), message=line),
            content,
        )
    if outcome is None:
        return None, content
    status, body = outcome
    if status.code in ("file_not_found", "edit_failed") and role(call.name, call.arguments) == "shell":
        status = replace(status, code="nonzero_exit")
    return status, body


def _flagged_exit(call: DraftCall, content: str) -> tuple[Status, str] | None:
    """Return the exit code in a result that the harness marks as failed; such a harness may report only failures."""
    if role(call.name, call.arguments) not in ("shell", "code", "tests"):
        return None
    reports = (report_before(content), report_after(content))
    report = next((report for report in reports if report is not None and report.code), None)
    return None if report is None else (_of_exit(report), report.output)


def _certain_problem(call: DraftCall, schemas: Schemas) -> str:
    """Return ``code: text`` for what is wrong with the call as the model wrote it; '' when nothing is."""
    if call.problem:
        return call.problem
    if not schemas or not call.name:
        return ""
    if call.name not in schemas:
        return f"tool_not_found: there is no tool {call.name!r}. The tools are: {', '.join(schemas)[:500]}"  # prose: ok
    wrong = argument_problem(call.name, schemas[call.name], call.arguments)
    return f"invalid_args: {wrong}" if wrong else ""
