"""The eight tools, in a real sandbox: what they answer and how they fail."""

from __future__ import annotations

import asyncio
import difflib
import re
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from etude.environments.coding.tools import TOOLS, run_tool, schemas
from etude.environments.sandbox import Limits, open_sandbox
from etude.environments.tasks.task_trees import materials
from etude.environments.tool_protocol import NO_CALL, OUTPUT, Context, answer_call, capped
from etude.hints.transcript.parsing import Call
from etude.models import Task

LIMITS = Limits(timeout_s=20.0)
NO_OPTIONS = "selector is a path or a test id and takes no options; run pytest with options in bash"


def use(task: Task, *calls: tuple[str, dict[str, Any]], names: Sequence[str] = tuple(TOOLS)) -> list[str]:
    """Return the answer to each call; all of them use one sandbox."""

    async def run() -> list[str]:
        sandbox = await open_sandbox(materials(task).agent_layers, LIMITS)
        try:
            parameters = {name: TOOLS[name].parameters() for name in names}
            run = partial(run_tool, Context(sandbox, task, LIMITS))
            return [
                await answer_call(Call(f"c{n}", name, args), parameters, run) for n, (name, args) in enumerate(calls)
            ]
        finally:
            await sandbox.close()

    return asyncio.run(run())


def one(task: Task, name: str, **arguments: Any) -> str:
    return use(task, (name, arguments))[0]


def test_schemas_are_openai_functions() -> None:
    assert [schema["function"]["name"] for schema in schemas(list(TOOLS))] == list(TOOLS)
    for schema in schemas(list(TOOLS)):
        parameters = schema["function"]["parameters"]
        assert parameters["additionalProperties"] is False
        assert set(parameters["required"]) <= set(parameters["properties"])


@pytest.mark.parametrize(("limit", "most"), [(120.0, 120), (20.0, 20), (0.5, 0.5)])
def test_schema_of_bash_states_the_limit_and_the_default(limit: float, most: float) -> None:
    rule = schemas(["read_file", "bash"], limit)[1]["function"]["parameters"]["properties"]["timeout_s"]
    assert (rule["minimum"], rule["maximum"], rule["default"]) == (0.1, most, most)


def test_answer_to_a_turn_without_a_call_says_that_two_in_a_row_end_the_episode() -> None:
    assert "Two turns in a row without one end the episode." in NO_CALL


@pytest.mark.parametrize(
    ("name", "arguments", "status"),
    [
        ("grep", {}, "error tool_not_found: there is no tool 'grep'; did you mean 'search'? The tools are: bash,"),
        ("read_fil", {}, "error tool_not_found: there is no tool 'read_fil'; did you mean 'read_file'? The tools are"),
        ("bash", {}, "error invalid_args: bash needs the argument 'command' (string)"),
        ("bash", {"cmd": "ls"}, "error invalid_args: bash has no argument 'cmd'; did you mean 'command'?"),
        ("bash", {"command": ["ls"]}, 'error invalid_args: bash: command must be of type string, got ["ls"]'),
        ("bash", {"command": "ls", "timeout_s": 0}, "error invalid_args: bash: timeout_s must be at least 0.1, got 0"),
        ("bash", {"command": "ls", "timeout_s": 21}, "error invalid_args: bash: timeout_s must be at most 20"),
        ("bash", {"command": "ls", "timeout_s": 10**400}, "error invalid_args: bash: timeout_s must be at most 20"),
        ("bash", {"command": "ls", "timeout_s": float("nan")}, "error invalid_args: bash: timeout_s must be of type"),
        ("bash", {"command": "ls", "timeout_s": True}, "error invalid_args: bash: timeout_s must be of type number"),
        ("bash", {"command": "ls\0"}, "error invalid_args: bash: command holds a NUL character"),
        ("bash", {"command": "x" * 200_000}, "error invalid_args: bash: command is longer than"),
        ("read_file", {"path": "gone.py"}, "error file_not_found: no such file: gone.py"),
        ("read_file", {"path": "src"}, "error file_not_found: src is a folder"),
        ("read_file", {"path": ""}, "error invalid_args: path is empty"),
        (
            "read_file",
            {"path": "src/tally/words.py", "start_line": 9},
            "error invalid_args: read_file: src/tally/words.py",
        ),
        (
            "read_file",
            {"path": "src/tally/words.py", "start_line": 5000},
            "error invalid_args: read_file: src/tally/words.py has 1 line; start_line 5000 is past the end",
        ),
        (
            "read_file",
            {"path": "src/tally/core.py", "start_line": 900, "end_line": 950},
            "error invalid_args: read_file: src/tally/core.py has ",
        ),
        (
            "read_file",
            {"path": "src/tally/core.py", "start_line": 20, "end_line": 10},
            "error invalid_args: read_file: end_line 10 is before start_line 20",
        ),
        (
            "read_file",
            {"path": "src/tally/core.py", "start_line": 3, "end_line": 1},
            "error invalid_args: read_file: end_line 1 is before start_line 3",
        ),
        ("edit_file", {"path": "src/tally/words.py", "old": "", "new": "x"}, "error edit_failed: old is empty"),
        ("search", {"pattern": "("}, "error invalid_args: search: pattern is not a regular expression"),
        ("search", {"pattern": "x", "path": "gone"}, "error file_not_found: no such file or folder: gone"),
        ("run_tests", {"selector": "--pdb"}, "error invalid_args: run_tests: selector is a path or a test id"),
        (
            "run_tests",
            {"selector": "tests -k total"},
            "error invalid_args: run_tests: selector is a path or a test id ",
        ),
        ("run_tests", {"selector": "-x"}, f"error invalid_args: run_tests: {NO_OPTIONS}"),
        ("run_tests", {"selector": "tests/test_visible.py::test_a -v"}, f"error invalid_args: run_tests: {NO_OPTIONS}"),
        (
            "run_tests",
            {"selector": "/etc"},
            "error invalid_args: run_tests: /etc is outside the workspace; give a path",
        ),
        ("run_tests", {"selector": "../etc/x.py::f"}, "error invalid_args: run_tests: ../etc/x.py::f is outside the"),
        ("submit", {"reward": 1}, "error invalid_args: submit has no argument 'reward'"),
    ],
)
def test_a_wrong_call_is_answered_with_the_mistake_and_the_remedy(
    task: Task, name: str, arguments: dict[str, Any], status: str
) -> None:
    answer = one(task, name, **arguments)
    assert answer.startswith(status)
    assert "\n" not in answer


def test_a_tool_that_the_agent_was_not_given_does_not_exist(task: Task) -> None:
    (answer,) = use(task, ("bash", {"command": "true"}), names=["submit"])
    assert answer.startswith("error tool_not_found: there is no tool 'bash'")


def test_bash_shows_output_and_exit_code(task: Task) -> None:
    assert one(task, "bash", command="echo hello; echo oops >&2") == "ok\nhello\noops\n"
    assert one(task, "bash", command="echo 'ok'; exit 3") == "exit 3\nok\n"
    assert one(task, "bash", command="true") == "ok"
    assert one(task, "bash", command="nonsuch").startswith("exit 127\n")


def test_bash_reports_a_timeout_with_the_output_so_far(task: Task) -> None:
    assert one(task, "bash", command="echo begun; sleep 60", timeout_s=0.5) == "timeout 0.5s\nbegun\n"


def test_long_output_keeps_head_and_tail_and_counts_the_rest(task: Task) -> None:
    answer = one(task, "bash", command="echo first; head -c 5000000 /dev/zero | tr '\\0' x; echo; echo last")
    assert len(answer) < OUTPUT + 200
    assert answer.startswith("ok\nfirst\n")
    assert answer.endswith("last\n")
    (dropped,) = re.findall(r"\[\.\.\. (\d+) bytes dropped \.\.\.\]", answer)
    assert int(dropped) == 5_000_012 - OUTPUT


def test_output_that_is_not_utf8_is_shown_as_far_as_it_goes(task: Task) -> None:
    assert one(task, "bash", command="printf 'a\\377b'") == "ok\na\ufffdb"


def test_capped_leaves_short_text_alone() -> None:
    assert capped(b"short") == "short"
    assert capped(b"abcdef", limit=4) == "ab\n[... 2 bytes dropped ...]\nef"
    assert capped(b"abef", 7, limit=4) == "ab\n[... 7 bytes dropped ...]\nef"


def test_files_are_written_read_and_edited(task: Task) -> None:
    answers = use(
        task,
        ("write_file", {"path": "new/notes.txt", "content": "one\ntwo é\nthree\n"}),
        ("read_file", {"path": "new/notes.txt"}),
        ("read_file", {"path": "/workspace/new/notes.txt", "start_line": 2, "end_line": 2}),
        ("edit_file", {"path": "new/notes.txt", "old": "two é", "new": "zwei"}),
        ("bash", {"command": "cat new/notes.txt"}),
    )
    assert answers == [
        "ok\nwrote 17 bytes to new/notes.txt",
        "ok\n1\tone\n2\ttwo é\n3\tthree",
        "ok\n2\ttwo é",
        "ok\nedited new/notes.txt at line 2",
        "ok\none\nzwei\nthree\n",
    ]


BLOCK = "class A:\n    def g(self):\n        x = 1\n        if a or b:\n            return x\n# end\n"


def _differs(place: int, line: str, number: int) -> str:
    return f"old is not in f; the nearest line is {place}: {line!r}; line {number} of old is "


@pytest.mark.parametrize(
    ("content", "old", "message"),
    [
        ("a\nb\na\n", "a", "old occurs 2 times in f (lines 1, 3); add lines around it"),
        ("def total(values):\n", "  def total(value):", "old is not in f; the nearest line is 1: 'def total(values):'"),
        ("a\r\nb\r\n", "a\nb", "old is not in f: its lines end in CR LF"),
        ("a\n", "zzzz", "old is not in f; read_file shows the exact text"),
        ("a\n", "b", "old is not in f"),
        (BLOCK, "    def g(self):\n        x = 1\n        if a and b:\n", _differs(4, "        if a or b:", 3)),
        (
            BLOCK,
            "g(self):\n        x = 1\n          if a or b:\n            return x",
            _differs(4, "        if a or b:", 3),
        ),
        (BLOCK, "class A:\n        x = 1\n        if a or b:", _differs(2, "    def g(self):", 2)),
        (BLOCK, "class A:\n\n    def g(self):\n        x = 1\n        if a", _differs(2, "    def g(self):", 2)),
        (BLOCK, "        if a or b:\n\treturn x\n", _differs(5, "            return x", 2)),
        (
            BLOCK,
            "            return x\n# end\n\nclass B:",
            "old is not in f; the file ends with line 6, and line 3 of old is ''",
        ),
        (BLOCK.replace("\n", "\r\n"), "class A:\n    def h(self):\n", _differs(2, "    def g(self):", 2)),
        (
            "if  x:\n            elif  y:\n",
            "          elif y :",
            "old is not in f; the nearest line is 2: '            elif  y:'",
        ),
    ],
)
def test_an_edit_that_finds_no_single_place_says_why(task: Task, content: str, old: str, message: str) -> None:
    written, edited = use(
        task,
        ("write_file", {"path": "f", "content": content}),
        ("edit_file", {"path": "f", "old": old, "new": "new"}),
    )
    assert written.startswith("ok")
    assert edited.startswith(f"error edit_failed: {message}")


def test_a_file_that_is_too_long_is_shown_in_parts(task: Task) -> None:
    text = "".join(f"line {number}\n" for number in range(5000))
    _, shown = use(
        task, ("write_file", {"path": "long", "content": text}), ("read_file", {"path": "long", "start_line": 3})
    )
    (first,) = re.findall(r"\[\.\.\. lines (\d+)-5000 of 5000 not shown; ask with start_line=\1 \.\.\.\]", shown)
    assert f"{int(first) - 1}\tline {int(first) - 2}\n" in shown


def test_binary_files_are_not_shown(task: Task) -> None:
    _, answer = use(task, ("bash", {"command": "printf 'a\\0b' > bin"}), ("read_file", {"path": "bin"}))
    assert answer == "error io_error: bin is a binary file of 3 bytes"


def test_a_file_that_cannot_be_written_is_a_result(task: Task) -> None:
    assert one(task, "write_file", path="src", content="x").startswith("error io_error: cannot write src: ")
    assert one(task, "write_file", path="/usr/x", content="x").startswith("error io_error: cannot write /usr/x: ")


@pytest.mark.parametrize("path", ["/usr/x", "../x", "/workspace2/x", "/opt/etude/env/x"])
def test_a_write_outside_the_workspace_says_where_to_write(task: Task, path: str) -> None:
    assert one(task, "write_file", path=path, content="x") == (
        f"error io_error: cannot write {path}: it is outside the workspace; write to a path below /workspace, or to a "
        "temporary file in /tmp"
    )
    assert one(task, "write_file", path="/tmp/x", content="x").startswith("ok")


def test_search_and_list_files_are_sorted_and_leave_git_out(task: Task) -> None:
    listed, result, inside, nothing = use(
        task,
        ("list_files", {}),
        ("search", {"pattern": r"^def \w+"}),
        ("search", {"pattern": "LIMIT = ", "path": "src/tally/words.py"}),
        ("search", {"pattern": "no such text anywhere"}),
    )
    names = listed.split("\n")[1:]
    assert names == sorted(names)
    assert "src/tally/core.py" in names
    assert not any(name.startswith(".git/") for name in names)
    assert "src/tally/core.py:6:def total(values):" in result
    assert inside == "ok\nsrc/tally/words.py:1:LIMIT = 100"
    assert nothing == "ok\nno matches"


GREEK = {"alpha.py": "one\ntwo\nthree\nfour\nfive\n", "docs/beta.md": "two\n", "docs/gamma.py": "two\n"}


def search(task: Task, **arguments: Any) -> str:
    """Return what a search in a folder of three files answers, without the status line."""
    writes = [("write_file", {"path": f"greek/{name}", "content": text}) for name, text in GREEK.items()]
    status, _, body = use(task, *writes, ("search", {"path": "greek", **arguments}))[-1].partition("\n")
    assert status == "ok"
    return body.replace("greek/", "")


@pytest.mark.parametrize(
    ("arguments", "body"),
    [
        ({"pattern": "x", "path": "src/tally/core.py", "glob": "*.rs"}, "no file matches the glob '*.rs'"),
        ({"pattern": "LIMIT", "glob": "src/**/*.toml"}, "no file matches the glob 'src/**/*.toml'"),
        ({"pattern": "LIMIT", "path": "src", "glob": "tally"}, "no file matches the glob 'tally'"),
        ({"pattern": "LIMIT", "glob": "wor*.py", "path": "src/tally/words.py"}, "src/tally/words.py:1:LIMIT = 100"),
        ({"pattern": "LIMIT", "glob": "src/**", "path": "src/tally/words.py"}, "src/tally/words.py:1:LIMIT = 100"),
        ({"pattern": "zzz", "glob": "*.py"}, "no matches"),
        ({"pattern": "zzz"}, "no matches"),
    ],
)
def test_search_applies_a_glob_to_a_file_and_says_when_no_file_matches(
    task: Task, arguments: dict[str, Any], body: str
) -> None:
    assert one(task, "search", **arguments) == f"ok\n{body}"


@pytest.mark.parametrize(
    ("glob", "files"),
    [
        ("*.py", ["alpha.py", "docs/gamma.py"]),
        ("*.md", ["docs/beta.md"]),
        ("greek/docs/*", ["docs/beta.md", "docs/gamma.py"]),
        ("docs/*", ["docs/beta.md", "docs/gamma.py"]),
        ("./greek/**/g*.py", ["docs/gamma.py"]),
        ("**", ["alpha.py", "docs/beta.md", "docs/gamma.py"]),
        ("alpha.*", ["alpha.py"]),
        ("*.rst", []),
    ],
)
def test_search_looks_only_into_files_that_match_a_glob(task: Task, glob: str, files: list[str]) -> None:
    body = search(task, pattern="two", glob=glob)
    assert [line.split(":")[0] for line in body.splitlines() if ":" in line] == files
    assert files or body == f"no file matches the glob {glob!r}"


def test_search_shows_lines_around_a_match_when_asked(task: Task) -> None:
    assert search(task, pattern="three", context=1) == "alpha.py-2-two\nalpha.py:3:three\nalpha.py-4-four"
    assert search(task, pattern="one|five", glob="alpha.py", context=1) == (
        "alpha.py:1:one\nalpha.py-2-two\n--\nalpha.py-4-four\nalpha.py:5:five"
    )
    assert search(task, pattern="two|four", glob="alpha.py", context=1) == (
        "alpha.py-1-one\nalpha.py:2:two\nalpha.py-3-three\nalpha.py:4:four\nalpha.py-5-five"
    )
    assert search(task, pattern="two", glob="docs/*", context=3) == "docs/beta.md:1:two\n--\ndocs/gamma.py:1:two"
    refused = one(task, "search", pattern="x", context=21)
    assert refused == "error invalid_args: search: context must be at most 20, got 21"


@pytest.mark.parametrize("selector", ["tests/gone.py", "tests/test_visible.py::test_gone", "gone/"])
def test_run_tests_says_once_what_is_wrong_with_a_selector(task: Task, selector: str) -> None:
    answer = one(task, "run_tests", selector=selector)
    status, *lines = answer.splitlines()
    assert status == "exit 4"
    assert sum(selector.rpartition("::")[2].strip("/") in line for line in lines) == 1, answer
    assert lines[-1] == "list_files shows the test files; run_tests without a selector runs all"
    assert len(lines) == 2


def test_a_workspace_cannot_stand_in_for_the_tools_own_modules(task: Task) -> None:
    answers = use(
        task,
        ("bash", {"command": "for m in re json os encodings; do echo 'raise SystemExit(9)' > $m.py; done"}),
        ("search", {"pattern": "LIMIT = "}),
    )
    assert answers[1] == "ok\nsrc/tally/words.py:1:LIMIT = 100"


def test_run_tests_runs_the_visible_tests_and_shows_no_time(task: Task) -> None:
    everything, selected, failing, nothing = use(
        task,
        ("run_tests", {}),
        ("run_tests", {"selector": "tests/test_visible.py::test_largest_of_nothing"}),
        ("bash", {"command": "echo 'def test(): assert object() is None' > tests/test_new.py"}),
        ("run_tests", {"selector": "tests/gone.py"}),
    )
    assert everything.startswith("ok\n")
    assert everything.endswith("3 passed")
    assert selected.endswith("1 passed")
    assert failing == "ok"
    assert nothing.startswith("exit 4\n")


def test_failing_tests_are_shown_without_addresses(task: Task) -> None:
    first, second = (
        use(
            task,
            ("write_file", {"path": "tests/test_new.py", "content": "def test(): assert object() is None\n"}),
            ("run_tests", {}),
        )[1]
        for _ in range(2)
    )
    assert first == second
    assert first.startswith("exit 1\n")
    assert "<object object at 0x...>" in first


def test_whole_files_are_looked_at_off_the_event_loop(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    observed: list[tuple[str, int, bool]] = []
    real = difflib.get_close_matches

    def watched(word: str, lines: list[str], **options: Any) -> list[str]:
        longest = max(map(len, [word, *lines]))
        observed.append((word[:4], longest, threading.current_thread() is threading.main_thread()))
        return real(word, lines, **options)

    monkeypatch.setattr(difflib, "get_close_matches", watched)
    _, missed = use(
        task,
        ("write_file", {"path": "long.txt", "content": "\n".join(f"{n} " + "ab " * 5000 for n in range(50))}),
        ("edit_file", {"path": "long.txt", "old": "gone " + "ba " * 5000, "new": ""}),
    )
    assert missed.startswith("error edit_failed: old is not in long.txt")
    assert observed == [("gone", 200, False)]
