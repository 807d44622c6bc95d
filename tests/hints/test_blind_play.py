"""The ten defects of hints and error turns that were measured in blind play, each with several variants.

Every test goes through ``annotate`` with tools that the product does not have, so that a hint is true for any tool set.
"""

from __future__ import annotations

from typing import Any

import pytest

from etude.hints import annotate
from etude.models import ErrorTurn

Step = tuple[str, dict[str, Any], str]
"""A tool, its arguments, and the tool message that answers the call."""


def schema(name: str, *required: str, optional: tuple[str, ...] = ()) -> dict[str, Any]:
    properties = {argument: {"type": "string"} for argument in (*required, *optional)}
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "function", "function": {"name": name, "parameters": {**parameters, "additionalProperties": False}}}


def errors_of(
    steps: list[Step], tools: list[dict[str, Any]] | None = None, faults: dict[str, str] | None = None
) -> list[ErrorTurn]:
    """Return the error turns of a log with one call in each turn; call ``cN`` belongs to turn N."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Do it.", "dialect": "etude"}]
    for turn, (name, arguments, content) in enumerate(steps):
        call = {"id": f"c{turn}", "name": name, "arguments": arguments}
        messages.append({"role": "assistant", "text": "Next.", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{turn}", "name": name, "content": content})
    return annotate(messages, tools or [], injected=faults)


def first_hint(steps: list[Step], tools: list[dict[str, Any]], faults: dict[str, str] | None = None) -> str:
    """Return the first hint of the last call's error."""
    return errors_of(steps, tools, faults)[-1].hints[0].text


def bash(command: str, content: str = "ok") -> Step:
    return "bash", {"command": command}, content


# 1. A missing tool: the nearest name by spelling may do something else, and the right tool must be in the list.

ALBUM = (
    "show_photograph_owner set_photograph_start_day list_photograph_tags delete_photograph move_photograph "
    "share_photograph archive_photograph rotate_photograph print_photograph fetch_photograph_start_day "
    "tag_photograph count_photographs get_photograph_due_day rename_photograph"
).split()


@pytest.mark.parametrize(
    ("called", "tools", "right", "wrong"),
    [
        ("fetch_photograph_due_day", ALBUM, "get_photograph_due_day", "fetch_photograph_start_day"),
        ("retrieve_invoice_tax_id", ["delete_invoice_tax_id", "read_invoice_tax_id"], "read_invoice_tax_id", "delete"),
        ("remove_guest_name", ["rename_guest_name", "drop_guest_name"], "drop_guest_name", "rename_guest_name"),
        ("show_parcel_weight", ["show_parcel_height", "get_parcel_weight"], "get_parcel_weight", "show_parcel_height"),
    ],
)
def test_missing_tool_hint_names_the_tool_that_does_the_same(
    called: str, tools: list[str], right: str, wrong: str
) -> None:
    refusal = f"error tool_not_found: there is no tool {called!r}. The tools are: {', '.join(tools)}"
    text = first_hint([(called, {"id": "7"}, refusal)], [schema(name, "id") for name in tools])
    advice = text.partition("There is no tool")[2]
    assert f"use {right}." in advice and wrong not in advice


def test_missing_tool_hint_names_no_tool_that_does_something_else() -> None:
    tools = ["weigh_truck", "wash_truck", "load_truck"]
    refusal = f"error tool_not_found: there is no tool 'unload_cargo'. The tools are: {', '.join(tools)}"
    assert "use " not in first_hint([("unload_cargo", {"id": "7"}, refusal)], [schema(name, "id") for name in tools])


def test_missing_tool_hint_lists_the_right_tool_among_many() -> None:
    tools = [f"adjust_{noun}_level" for noun in "alpha beta gamma delta epsilon zeta eta theta iota".split()]
    tools += ["compare_ledgers", "audit_ledger_totals", "close_ledger"]
    refusal = f"error tool_not_found: there is no tool 'ledger_totals_check'. The tools are: {', '.join(tools)}"
    text = first_hint([("ledger_totals_check", {}, refusal)], [schema(name) for name in tools])
    assert "audit_ledger_totals" in text and "more" not in text


# 2. A garbled result of a call that acts: the call may have worked, so the first step is to look.

UNREADABLE = "half of the result of {!r} came garbled"


@pytest.mark.parametrize(
    ("tool", "arguments", "fault"),
    [
        ("edit_file", {"path": "a.py", "old": "x", "new": "y"}, UNREADABLE),
        ("book_flight", {"flight": "LH 12"}, UNREADABLE),
        ("send_invoice", {"customer": "c9"}, "half of the result of {!r} was lost: it came truncated"),
        ("bash", {"command": "git commit -m x"}, UNREADABLE),
        ("transfer_money", {"amount": "5"}, "the connection to {!r} was lost: timeout"),
    ],
)
def test_hint_says_verify_first_when_the_garbled_call_acts(tool: str, arguments: dict[str, Any], fault: str) -> None:
    text = first_hint([(tool, arguments, "ok\ned\ufffd\ufffd")], [], {"c0": fault.format(tool)})
    assert "may have taken effect: check that first" in text and "ask again" not in text


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("read_file", {"path": "a.py"}), ("get_balance", {"account": "1"}), ("bash", {"command": "cat a.py"})],
)
def test_hint_says_ask_again_when_the_garbled_call_only_looks(tool: str, arguments: dict[str, Any]) -> None:
    text = first_hint([(tool, arguments, "ok\nx\ufffd")], [], {"c0": UNREADABLE.format(tool)})
    assert "ask again" in text and "taken effect" not in text


# 3. An edit whose only mistake is its indentation: the hint shows it.

SHOWN = "ok\n1\tdef f(x):\n2\t    if x:\n3\t        return 1\n4\t\t\treturn 2"


@pytest.mark.parametrize(
    ("old", "message", "in_file", "in_text"),
    [
        ("if x:\n    return 1", "old is not in a.py", "8 spaces", "4 spaces"),
        ("      if x:", "old is not in a.py; the nearest line is 2: '    if x:'", "4 spaces", "6 spaces"),
        ("        return 2", "old is not in a.py; the nearest line is 4: '\\t\\treturn 2'", "2 tabs", "8 spaces"),
        ("  def f(x):\n      if x:", "old is not in a.py", "no indentation", "2 spaces"),
    ],
)
def test_edit_hint_names_both_indentations(old: str, message: str, in_file: str, in_text: str) -> None:
    edit: Step = ("edit_file", {"path": "a.py", "old": old, "new": "z"}, f"error edit_failed: {message}")
    text = first_hint([("read_file", {"path": "a.py"}, SHOWN), edit], [])
    assert "indented differently" in text
    assert f"begins with {in_file} in the file and with {in_text} in your text" in text


# 4. An expired token is not a matter of file permissions.


@pytest.mark.parametrize(
    "fault",
    [
        "the session token has expired",
        "permission denied: token expired, get a new one",
        "401 unauthorized",
        "access forbidden: you must log in again",
        "credentials are no longer valid",
    ],
)
def test_hint_says_how_to_renew_when_a_token_has_expired(fault: str) -> None:
    tools = [schema("open_vault", "token"), schema("renew_token")]
    refused: Step = ("open_vault", {"token": "t1"}, f"error injected_fault: {fault}")
    text = first_hint([refused], tools, {"c0": fault})
    assert "renew_token" in text and "change the permission" not in text


def test_hint_of_a_drill_offers_no_file_permissions_without_a_path() -> None:
    fault = "permission denied for a moment"
    text = first_hint([("open_vault", {"id": "1"}, f"error injected_fault: {fault}")], [], {"c0": fault})
    assert "change the permission" not in text and "once more" in text


# 5. A search that counts answers 0 with exit code 1.


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("grep -c TODO a.py", "0"),
        ("cd src && grep -rc needle .", "./a.py:0\n./b.py:0"),
        ("cat log.txt | grep -ic error", "0"),
        ("rg --count needle src", ""),
        ("grep --count x a.py b.py", "a.py:0\nb.py:0"),
    ],
)
def test_search_that_counts_nothing_is_not_an_error(command: str, output: str) -> None:
    assert errors_of([bash(command, f"exit 1\n{output}")]) == []


@pytest.mark.parametrize(
    ("command", "content"),
    [
        ("grep -c TODO missing.py", "exit 2\ngrep: missing.py: No such file or directory"),
        ("cd nowhere && grep -c x a.py", "exit 1\nbash: line 1: cd: nowhere: No such file or directory"),
        ("grep -n TODO a.py && false", "exit 2"),
        ("python count.py -c", "exit 1\n0"),
    ],
)
def test_search_that_fails_is_an_error_still(command: str, content: str) -> None:
    assert [error.kind for error in errors_of([bash(command, content)])] == ["nonzero_exit"]


# 6. A timeout gets one piece of advice, not two that contradict each other.


@pytest.mark.parametrize(
    ("command", "content"),
    [
        ("sleep 60", "timeout 30s"),
        ("python -c 'import time; time.sleep(90)'", "timeout 30s"),
        ("while true; do sleep 1; done", "timeout 20s"),
        ("pytest -q tests", "timeout 30s\n..."),
        ("watch -n 1 date", "timeout 10s"),
    ],
)
def test_timeout_gets_one_hint(command: str, content: str) -> None:
    errors = errors_of([bash(command, content)])
    assert [error.kind for error in errors] == ["timeout"]
    assert len(errors[0].hints) == 1


@pytest.mark.parametrize("tool", ["book_flight", "read_page"])
def test_injected_timeout_gets_one_hint(tool: str) -> None:
    errors = errors_of([(tool, {"id": "3"}, "timeout 30s")], faults={"c0": f"{tool!r} timed out"})
    assert [hint.template for error in errors for hint in error.hints] == ["injected_fault"]


# 7. A command that runs a script before it shows a file may have written that file.


@pytest.mark.parametrize(
    "command",
    [
        "python build.py && cat out.txt",
        "python - <<'E'\nopen('out.txt', 'w').write('1')\nE\ncat out.txt",
        "./generate.sh; head -5 out.txt",
        "make report && sed -n 1,5p out.txt",
    ],
)
def test_file_shown_after_a_script_in_the_same_command_is_not_a_reread(command: str) -> None:
    assert errors_of([bash("cat out.txt", "ok\n1"), bash(command, "ok\n1")]) == []


def test_file_shown_again_by_a_command_that_only_looks_is_a_reread() -> None:
    errors = errors_of([bash("cat out.txt", "ok\n1"), bash("cd . && cat out.txt", "ok\n1")])
    assert [error.message.partition(":")[0] for error in errors] == ["reread"]


# 8. Only a command line can have a pipe.

CUT = "ok\n" + "x" * 9000 + "\n[... 77 bytes dropped ...]\n" + "y" * 9000


@pytest.mark.parametrize(
    ("tool", "arguments", "tools", "advised"),
    [
        ("search", {"pattern": "x"}, [schema("search", "pattern", optional=("path",))], "path"),
        ("query_orders", {"query": "*"}, [schema("query_orders", "query", optional=("limit",))], "limit"),
        ("fetch_page", {"url": "u"}, [schema("fetch_page", "url")], "smaller part"),
        ("list_events", {}, [schema("list_events", optional=("page",))], "page"),
    ],
)
def test_output_limit_hint_advises_no_pipe_without_a_shell(
    tool: str, arguments: dict[str, Any], tools: list[dict[str, Any]], advised: str
) -> None:
    text = first_hint([(tool, arguments, CUT)], tools)
    assert advised in text and "|" not in text and "head" not in text


def test_output_limit_hint_advises_a_pipe_for_a_command() -> None:
    assert "| head" in first_hint([bash("seq 1 99999", CUT)], [])


# 9. Arguments that fit another tool: the schema of the wrong tool is not the advice.


@pytest.mark.parametrize(
    ("tool", "arguments", "tools", "right"),
    [
        (
            "weigh_truck",
            {"contract": "k", "clause": "2"},
            [schema("weigh_truck", "truck"), schema("amend_contract", "contract", "clause")],
            "amend_contract(contract: string, clause: string)",
        ),
        (
            "read_note",
            {"channel": "ops", "text": "hi"},
            [schema("read_note", "note"), schema("post_text", "channel", "text"), schema("list_notes")],
            "post_text(channel: string, text: string)",
        ),
        (
            "search",
            {"path": "a.py", "start_line": "1"},
            [schema("search", "pattern"), schema("read_file", "path", optional=("start_line",))],
            "read_file(path: string, start_line?: string)",
        ),
    ],
)
def test_invalid_arguments_hint_names_the_tool_that_they_fit(
    tool: str, arguments: dict[str, Any], tools: list[dict[str, Any]], right: str
) -> None:
    text = first_hint([(tool, arguments, f"error invalid_args: {tool}: x")], tools)
    assert f"These arguments fit {right}" in text


def test_invalid_arguments_hint_shows_the_schema_when_no_other_tool_fits() -> None:
    tools = [schema("weigh_truck", "truck"), schema("wash_truck", "truck", "hours")]
    text = first_hint([("weigh_truck", {"lorry": "l1"}, "error invalid_args: x")], tools)
    assert "Call weigh_truck(truck: string)." in text and "fit" not in text


# 10. Recovery: another file is not a recovery, another probe for the same thing is.


def recovered(*steps: Step) -> tuple[bool | None, int | None]:
    error = errors_of(list(steps))[0]
    return error.recovered, error.turns_to_recover


NO_FILE = "error file_not_found: no such file"
LOOK: Step = ("think", {"note": "."}, "ok")


@pytest.mark.parametrize(
    ("failed", "later"),
    [
        (("read_file", {"path": "core.py"}, NO_FILE), ("read_file", {"path": "README.md"}, "ok\n1")),
        (
            ("edit_file", {"path": "core.py", "old": "a", "new": "b"}, "error edit_failed: old is not in core.py"),
            ("edit_file", {"path": "setup.cfg", "old": "a", "new": "b"}, "ok\nedited"),
        ),
        (bash("python train.py", "exit 1\nboom"), bash("cat notes.txt", "ok\n1")),
        (bash("sed -i s/a/b/ core.py", "exit 2\nsed: bad"), bash("sed -i s/a/b/ setup.cfg")),
    ],
)
def test_error_is_not_recovered_by_a_call_about_another_file(failed: Step, later: Step) -> None:
    assert recovered(failed, later, LOOK) == (False, None)


@pytest.mark.parametrize(
    ("failed", "later"),
    [
        (
            bash("cat src/core.py", "exit 1\ncat: src/core.py: No such file or directory"),
            bash("ls src", "ok\ncore2.py"),
        ),
        (("read_file", {"path": "lib/cor.py"}, NO_FILE), bash("sed -n 1,9p lib/core.py", "ok\n1")),
        (("read_file", {"path": "conf.toml"}, NO_FILE), ("list_files", {}, "ok\npyproject.toml")),
        (bash("cat core.py | false", "exit 1"), ("read_file", {"path": "core.py"}, "ok\n1")),
        (
            ("edit_file", {"path": "core.py", "old": "a", "new": "b"}, "error edit_failed: old is not in core.py"),
            bash("sed -i s/a/b/ core.py"),
        ),
        (bash("pytst -q", "exit 127\nbash: line 1: pytst: command not found"), ("bash", {"command": "ls"}, "ok\na.py")),
    ],
)
def test_error_is_recovered_by_another_attempt_at_the_same_thing(failed: Step, later: Step) -> None:
    assert recovered(failed, later, LOOK) == (True, 1)


# 11. A block whose later line differs: the hint names that line, the file's version and the agent's.

METHOD = "ok\n7\tdef pad(text):\n8\t    width = 3\n9\t    if left or right:\n10\t            elif alignment:"


@pytest.mark.parametrize(
    ("old", "message", "says"),
    [
        (
            "def pad(text):\n    width = 3\n    if left and right:",
            "; the nearest line is 9: '    if left or right:'; line 3 of old is '    if left and right:'",
            ["Line 3 of your text differs: it is `    if left and right:`", "line is 9: `    if left or right:`"],
        ),
        (
            "def pad(text):\n    width = 4\n    if left or right:",
            "",
            ["Line 2 of your text differs: it is `    width = 4`", "The nearest line is `    width = 3`"],
        ),
        (
            "        elif  alignment :",
            "; the nearest line is 10: ' elif alignment:'",
            ["10: `            elif alignment:`"],
        ),
        ("        elif alignment :", "; the nearest line is 10: '            elif alignment:'", ["`            elif"]),
        (
            "    if left or right:\n        elif alignment:",
            "; the nearest line is 10: '            elif alignment:'; line 2 of old is '        elif alignment:'",
            ["Line 2 of your text is indented differently", "12 spaces in the file and with 8 spaces in your text"],
        ),
    ],
)
def test_edit_hint_names_the_line_that_differs_with_its_spaces(old: str, message: str, says: list[str]) -> None:
    edit: Step = (
        "edit_file",
        {"path": "a.py", "old": old, "new": "z"},
        f"error edit_failed: old is not in a.py{message}",
    )
    text = first_hint([("read_file", {"path": "a.py", "start_line": 7}, METHOD), edit], [])
    assert all(words in text for words in says), text
    assert "1 space " not in text and "`def pad(text):` is not" not in text


# 12. Exit code 1 is the answer of a search, a comparison and a condition.


@pytest.mark.parametrize(
    ("command", "body"),
    [
        ("grep nothing README.md", ""),
        ("diff a.py b.py", "1c1\n< x\n---\n> error: y"),
        ("diff a.py b.py >/dev/null", ""),
        ("diff <(sort a.txt) <(sort b.txt)", "2d1\n< z"),
        ("test -f setup.cfg", ""),
        ("[ -d build ]", ""),
        ("[[ -e a.py && -d build ]]", ""),
        ("! grep -q TODO a.py", ""),
        ("cmp a.bin b.bin", "a.bin b.bin differ: byte 3, line 1"),
        ("git diff --quiet", ""),
        ("cd src && git diff --exit-code a.py", "diff --git a/a.py b/a.py\n-old\n+Error: new"),
        ("git grep -n needle", ""),
        ("git merge-base --is-ancestor main HEAD", ""),
        ("pgrep -f server", ""),
        ("which node", ""),
        ("command -v rg", ""),
        ("cat a.log | sort | grep ERROR", ""),
        ("ls && grep -q x a.py && echo found", "a.py"),
        ("grep -q x a.py && python a.py", ""),
        ("grep -l x *.py; rg -n y src", "a.py"),
        ("for f in *.py; do grep -q main $f; done", ""),
        ("set -e; grep x a.py; echo found", ""),
        ("timeout 5 grep -rn x .", ""),
        ("[ $(wc -l < a.py) -gt 3 ]", ""),
    ],
)
def test_exit_code_1_that_is_an_answer_is_not_an_error(command: str, body: str) -> None:
    assert errors_of([bash(command, f"exit 1\n{body}".strip())]) == []


@pytest.mark.parametrize(
    ("command", "content"),
    [
        ("grep x missing.py", "exit 2\ngrep: missing.py: No such file or directory"),
        ("grep x missing.py", "exit 1\ngrep: missing.py: No such file or directory"),
        ("diff a.py gone.py", "exit 2\ndiff: gone.py: No such file or directory"),
        ("[ -d build", "exit 2\nbash: line 1: [: missing `]'"),
        ("git diff --quiet", "exit 129\nerror: Not a git repository"),
        ("git diff --exit-code", "exit 1\nfatal: bad config"),
        ("cd nowhere && test -f x", "exit 1\nbash: line 1: cd: nowhere: No such file or directory"),
        ("grep x a.py | python count.py", "exit 1"),
        ("grep x a.py; false", "exit 1"),
        ("grep -q x a.py || make", "exit 1"),
        ("grep x a.py && make all", "exit 1\nx = 1\nbuild stopped"),
        ("make all && grep x out.txt", "exit 1\nbuild stopped"),
        ("git diff", "exit 1"),
        ("python diff.py a b", "exit 1"),
    ],
)
def test_failure_of_a_command_that_answers_is_an_error(command: str, content: str) -> None:
    assert [error.kind for error in errors_of([bash(command, content)])] == ["nonzero_exit"]


@pytest.mark.parametrize(
    ("later", "expected"), [(bash("test -f core.py", "exit 1"), False), (bash("grep x core.py", "exit 1"), True)]
)
def test_condition_that_is_denied_is_not_a_recovery(later: Step, expected: bool) -> None:
    assert recovered(bash("cat core.py", "exit 1\ncat: core.py: No such file"), later, LOOK)[0] is expected


# 13. A limit that the agent chose is called its own, with the most that it may ask for.

SHELL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "bash",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string"}, "timeout_s": {"type": "number", "maximum": 120}},
            "required": ["command"],
        },
    },
}


@pytest.mark.parametrize(
    ("asked", "status", "says"),
    [
        ({"timeout_s": 2}, "timeout 2s", "the 2 s that you asked for (at most 120)"),
        ({"timeout_s": 0.5}, "timeout 0.5s", "the 0.5 s that you asked for (at most 120)"),
        ({"timeout": 45}, "timeout 45s", "the 45 s that you asked for"),
        ({"timeout_s": 120}, "timeout 120s", "the 120 s that a call may take"),
        ({}, "timeout 120s", "the 120 s that a call may take"),
    ],
)
def test_timeout_hint_says_whose_limit_it_was(asked: dict[str, Any], status: str, says: str) -> None:
    assert f"{says}." in first_hint([("bash", {"command": "python train.py", **asked}, status)], [SHELL])


# 14. The advice against waiting names only what waits.


@pytest.mark.parametrize(
    ("command", "named", "unnamed"),
    [
        ("sleep 5 & echo hi", "`sleep 5`", "echo"),
        ("sleep 5 && cat a.log", "`sleep 5`", "cat"),
        ("python a.py; sleep 10; ls", "`sleep 10`", "python"),
        ("python -c 'import time; time.sleep(9); print(1)'", "`time.sleep(9)`", "print"),
        ("sleep 3; ls; sleep 4", "`sleep 3`, `sleep 4`", "ls"),
        ("until test -f x; do sleep 1; done", "`until test -f x; do sleep 1; done`", "&"),
    ],
)
def test_sleep_hint_names_only_what_waits(command: str, named: str, unnamed: str) -> None:
    text = first_hint([bash(command, "ok\nhi")], [])
    assert f"Leave out {named}: nothing runs" in text and unnamed not in text


def test_sleep_hint_advises_the_foreground_for_a_command_in_the_background() -> None:
    assert "foreground" in first_hint([bash("make all & sleep 8; cat log", "ok\nhi")], [])
    assert "foreground" not in first_hint([bash("sleep 8 & echo hi", "ok\nhi")], [])


# 15. A program that reads the keyboard waits for keys, with a file argument as well.


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("vim README.md", "vim"),
        ("cd src && less core.py", "less"),
        ("nano -w notes.txt", "nano"),
        ("top", "top"),
        ("htop -u me", "htop"),
        ("python -m pdb core.py", "pdb"),
        ("python -i core.py", "python"),
        ("git rebase -i HEAD~2", "git"),
        ("git commit", "git"),
        ("ipython core.py", "ipython"),
    ],
)
def test_timeout_hint_says_that_the_program_waits_for_keys(command: str, program: str) -> None:
    assert f"`{program}` waits for keys that never come" in first_hint([bash(command, "timeout 30s")], [])


@pytest.mark.parametrize("command", ["top -b", "git commit -m x", "vim -es -c q a.py", "git log | less", "python a.py"])
def test_timeout_hint_says_nothing_of_keys_when_none_are_read(command: str) -> None:
    assert "keys" not in first_hint([bash(command, "timeout 30s")], [])


# 16. A pattern that is not a regular expression: the hint escapes the character.


@pytest.mark.parametrize(
    ("pattern", "reason", "escaped"),
    [
        ("def total(", "missing ), unterminated subpattern at position 9", r"`\(`"),
        ("a[0", "unterminated character set at position 1", r"`\[`"),
        ("*args", "nothing to repeat at position 0", r"`\*`"),
        ("f(x))", "unbalanced parenthesis at position 4", r"`\)`"),
        ("x++", "multiple repeat at position 2", r"`\+`"),
    ],
)
def test_bad_pattern_hint_escapes_the_character(pattern: str, reason: str, escaped: str) -> None:
    answer = f"error invalid_args: search: pattern is not a regular expression: {reason}"
    assert escaped in first_hint([("search", {"pattern": pattern}, answer)], [schema("search", "pattern")])


# 17. A module that is not installed.


@pytest.mark.parametrize(
    ("command", "body", "module"),
    [
        ("python -c 'import numpy'", "ModuleNotFoundError: No module named 'numpy'", "numpy"),
        ("python a.py", "ModuleNotFoundError: No module named 'requests'", "requests"),
    ],
)
def test_missing_module_hint_says_that_it_cannot_be_installed(command: str, body: str, module: str) -> None:
    trace = f'exit 1\nTraceback (most recent call last):\n  File "<string>", line 1, in <module>\n{body}'
    says = f"`{module}` is not installed and cannot be installed; use"
    assert says in first_hint([bash(command, trace)], [])
    assert says in first_hint([bash(f"python -m {module}", f"exit 1\n/usr/bin/python: No module named {module}")], [])
    ours = ("list_files", {}, f"ok\nsrc/{module}/core.py")
    assert "cannot be installed" not in first_hint([ours, bash(command, trace)], [])


# 18. A traceback from workspace code is recovered by an edit of the place that it names and a later run.

RAISED = """exit 1
Traceback (most recent call last):
  File "/tmp/repro.py", line 2, in <module>
    total(None)
  File "/workspace/src/tally/core.py", line 8, in total
    return sum(values)
TypeError: 'NoneType' object is not iterable"""


def edit_of(path: str, line: int) -> Step:
    return "edit_file", {"path": path, "old": "a", "new": "b"}, f"ok\nedited {path} at line {line}"


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([edit_of("src/tally/core.py", 7), ("run_tests", {}, "ok\n3 passed")], (True, 2)),
        ([edit_of("/workspace/src/tally/core.py", 12), LOOK, bash("python check.py", "ok\n3")], (True, 3)),
        ([bash("sed -i s/a/b/ src/tally/core.py"), bash("make verify", "ok")], (True, 2)),
        ([bash("python /tmp/repro.py", "ok\n0")], (True, 1)),
        ([edit_of("src/tally/core.py", 900), ("run_tests", {}, "ok\n3 passed")], (False, None)),
        ([edit_of("src/tally/words.py", 8), ("run_tests", {}, "ok\n3 passed")], (False, None)),
        ([edit_of("src/tally/core.py", 8), bash("ls src", "ok\ntally")], (False, None)),
        ([("run_tests", {}, "ok\n3 passed"), edit_of("src/tally/core.py", 8)], (False, None)),
        ([edit_of("src/tally/core.py", 8), bash("make verify", RAISED)], (False, None)),
        ([edit_of("src/tally/core.py", 8), bash("sed -i s/a/b/ src/tally/core.py")], (False, None)),
        ([edit_of("src/tally/core.py", 8), ("run_tests", {}, RAISED)], (False, None)),
        ([edit_of("src/tally/core.py", 8), ("run_tests", {}, "exit 1\n1 failed: assert 1 == 2")], (True, 2)),
    ],
)
def test_traceback_is_recovered_by_an_edit_of_the_place_and_a_run(
    steps: list[Step], expected: tuple[bool, int | None]
) -> None:
    assert recovered(bash("python /tmp/repro.py", RAISED), *steps, LOOK) == expected
