"""One call, one result, one kind: what harnesses, shells and tools say (tests/data/transcripts/README.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from etude.hints import annotate
from etude.hints.foreign.terminal import output_lines
from etude.hints.foreign.unknown_format import in_english
from etude.hints.foreign.wrappers import announced, bare, plain, unquoted

BEHAVIOURS = {"wasteful", "style", "false_claim"}


def kinds(tool: str, arguments: dict[str, Any], content: str) -> list[str]:
    function = {"name": tool, "arguments": json.dumps(arguments)}
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "a", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "a", "content": content},
    ]
    return [error.kind for error in annotate(messages, []) if error.kind not in BEHAVIOURS]


def test_each_saying_means_its_kind(root: Path) -> None:
    rows = (root / "tests" / "data" / "transcripts" / "sayings.jsonl").read_text().splitlines()
    wrong = [row for row in map(json.loads, rows) if kinds(*row[:3]) != ([row[3]] if row[3] else [])]
    assert len(rows) > 150 and wrong == []


def test_a_text_is_bare_without_what_names_the_call_and_the_shells_state() -> None:
    assert bare("<result>\nFile: a.py\nno\n[cwd: /w]\nbash-$\n</result>") == "no"
    assert bare("[cwd: /w]") == "[cwd: /w]"
    assert bare("a\n[stopped: took too long]") == "a\n[stopped: took too long]"


def test_an_announcement_is_followed_by_what_it_announces() -> None:
    assert announced("error:\n\n```\nTimeout: x\n```") == "Timeout: x"
    assert announced("all is well:\nyes") == ""


def test_colours_and_line_ends_and_quotes_go() -> None:
    assert plain("\x1b[1;31mno\x1b[0m\r\nyes\r") == "no\nyes"
    assert unquoted('"a\\nb"') == "a\nb" and unquoted('"a" and "b"') == '"a" and "b"'
    assert unquoted('[{"type": "text", "text": "\\ud800"}]') == "?"


def test_a_terminals_lines_are_those_after_the_last_showing_of_the_command() -> None:
    assert output_lines("u@h:~$ cd x\nu@h:~$ ls y\nls: no y\nu@h:~$ ", "ls y\n") == ["ls: no y"]


def test_a_complaint_is_read_in_other_languages() -> None:
    assert in_english("bash: ligne 1: rgx : commande introuvable") == "bash: line 1: rgx: command not found"
    assert in_english("cat: x: 没有那个文件或目录") == "cat: x: No such file or directory"
    assert in_english("nothing : of that") == "nothing : of that"
