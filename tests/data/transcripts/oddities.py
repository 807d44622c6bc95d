"""Logs written out by hand: what only one dialect, one harness or one careless logger does."""

from __future__ import annotations

import json
from typing import Any

from telling import tool

LOGS: list[dict[str, Any]] = []
BASH = tool("bash", "command:string")
READ = tool("read_file", "path:string")


def log(name: str, dialect: str, tools: list[dict[str, Any]], labels: list[list[Any]], *messages: dict[str, Any]) -> None:
    LOGS.append(
        {
            "name": name,
            "dialect": dialect,
            "results": "own",
            "tools": tools,
            "messages": list(messages),
            "turns": sum(message.get("role") == "assistant" for message in messages),
            "labels": labels,
        }
    )


def says(text: str, *calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text, **more}
    if calls:
        message["tool_calls"] = list(calls)
    return message


def fn(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}


def gets(call_id: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content, **more}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def sh(call_id: str, command: str) -> dict[str, Any]:
    return fn(call_id, "bash", {"command": command})


# --- etude --------------------------------------------------------------------------------------------------

log(
    "duplicate-ids", "etude", [BASH], [[0, 1, "malformed_call"], [1, 0, "malformed_call"]],
    user("go"),
    {"role": "assistant", "text": "twice", "tool_calls": [{"id": "a", "name": "bash", "arguments": {"command": "ls"}}, {"id": "a", "name": "bash", "arguments": {"command": "pwd"}}]},
    {"role": "tool", "tool_call_id": "a", "name": "bash", "content": "ok\nx.py"},
    {"role": "tool", "tool_call_id": "a", "name": "bash", "content": "error malformed_call: duplicate id 'a' in one turn; not run"},
    {"role": "assistant", "text": "", "tool_calls": "bash ls"},
    {"role": "tool", "tool_call_id": "call_1_0", "name": "", "content": "error malformed_call: tool_calls must be a list of calls, got string"},
    {"role": "assistant", "text": "", "tool_calls": [{"id": "a", "name": "bash", "arguments": {"command": "ls"}}]},
    {"role": "tool", "tool_call_id": "a", "name": "bash", "content": "ok\nx.py"},
)
log(
    "printed-status-lines", "etude", [BASH, READ], [[2, 0, "nonzero_exit"]],
    user("go"),
    {"role": "assistant", "text": "<tool_call>{bad json</tool_call> is what Qwen writes", "tool_calls": [{"id": "a", "name": "bash", "arguments": "{\"command\": \"cat statuses\"}"}]},
    {"role": "tool", "tool_call_id": "a", "name": "bash", "content": "ok\nexit 1\nerror tool_not_found: there is no tool 'bash'\ntimeout 30s"},
    {"role": "assistant", "text": "Action: nope\nAction Input: {", "tool": "read_file", "arguments": {"path": "a"}},
    {"role": "tool", "tool_call_id": "call_1_0", "name": "read_file", "content": "ok\n1\terror file_not_found: no such file: a"},
    {"role": "assistant", "text": "", "tool": "bash", "arguments": {"command": "echo ok; exit 9"}},
    {"role": "tool", "tool_call_id": "call_2_0", "name": "bash", "content": "exit 9\nok"},
    {"role": "assistant", "text": "", "tool": "bash", "arguments": {"command": "printf 'not run: episode ended'"}},
    {"role": "tool", "tool_call_id": "call_3_0", "name": "bash", "content": "ok\nnot run: episode ended"},
)

# --- openai -------------------------------------------------------------------------------------------------

log(
    "same-ids-from-a-local-server", "openai", [BASH], [[1, 0, "nonzero_exit"]],
    user("count the files"),
    says("", sh("call_0", "ls | wc -l"), sh("call_0", "ls -a | wc -l")), gets("call_0", '{"stdout": "3\\n", "stderr": "", "returncode": 0}'), gets("call_0", '{"stdout": "5\\n", "stderr": "", "returncode": 0}'),
    says("", sh("call_0", "ls missing")), gets("call_0", '{"stdout": "", "stderr": "ls: cannot access \'missing\': No such file or directory\\n", "returncode": 2}'),
    says("", sh("call_0", "ls")), gets("call_0", '{"stdout": "a b c\\n", "stderr": "warning: error prone", "returncode": 0}'),
    says("There are three."),
)
log(
    "flags", "openai", [], [[0, 0, "file_not_found"], [2, 0, "nonzero_exit"]],
    user("what is in notes?"),
    says("", fn("t1", "read_notes", {"path": "notes.txt"})), gets("t1", "Error: file not found: notes.txt", is_error=True),
    says("", fn("t2", "read_notes", {"path": "notes.md"})), gets("t2", "Error: never panic\nTraceback lines are long", is_error=False),
    says("", fn("t3", "publish", {})), gets("t3", "the printer is on fire", status="error"),
    says("", fn("t4", "publish", {})), gets("t4", "published", status="success"),
)
log(
    "function-results", "openai", [], [[1, 0, "nonzero_exit"], [3, 0, "tool_not_found"], [4, 0, "malformed_call"]],
    user("weather in Ulm and Bonn"),
    says("", fn("a", "get_weather", {"city": "Ulm"})), gets("a", '{"temperature": 11, "unit": "C"}'),
    says("", fn("b", "get_weather", {"city": "Bon"})), gets("b", '{"error": "unknown city: Bon"}'),
    says("", fn("c", "get_weather", {"city": "Bonn"})), gets("c", '{"temperature": 12, "unit": "C", "error": null}'),
    says("", fn("d", "get_wether", {"city": "Ulm"})), gets("d", "Unknown tool: get_wether"),
    says("", fn("e", "get_weather", '{"city": "Ulm"')), gets("e", "Error: invalid JSON in arguments"),
    says("", fn("f", "get_weather", '{"city": "Ulm"}')), gets("f", '{"temperature": 11, "unit": "C"}'),
    says("11 and 12 degrees."),
)
log(
    "legacy-functions", "openai", [], [[0, 0, "nonzero_exit"]],
    user("book a table"),
    says("", function_call={"name": "book", "arguments": '{"people": 40}'}), {"role": "function", "name": "book", "content": '{"success": false, "message": "too many people"}'},
    says("", function_call={"name": "book", "arguments": '{"people": 4}'}), {"role": "function", "name": "book", "content": '{"success": true, "message": "no error, table 3"}'},
    says("Table 3."),
)
log(
    "parts-and-late-results", "openai", [BASH, READ], [[0, 1, "file_not_found"], [1, 0, "command_not_found"]],
    user("read both"),
    says("", fn("p", "read_file", {"path": "a.txt"}), fn("q", "read_file", {"path": "b.txt"})),
    gets("q", [{"type": "text", "text": "Error: No such file or directory: 'b.txt'"}]), gets("p", [{"type": "text", "text": "Error: this is the text of a.txt\n"}]),
    says("", sh("r", "jq . a.txt")), gets("r", "/bin/sh: 1: jq: not found"),
    says("", sh("s", "cat a.txt b.log")), gets("s", "Error: this is the text of a.txt\nzsh: command not found: jq"),
    says("", sh("t", "date")),
)
log(
    "claude-style-shell", "openai", [tool("Bash", "command:string", "description:string"), tool("Edit", "file_path:string old_string:string new_string:string", "replace_all:boolean"), tool("Read", "file_path:string")],
    [[0, 0, "nonzero_exit"], [2, 0, "edit_failed"], [4, 0, "file_not_found"], [5, 0, "timeout"]],
    user("raise the limit"),
    says("", fn("1", "Bash", {"command": "grep -rn LIMIT lib"})), gets("1", "Exit code 2\ngrep: lib: No such file or directory"),
    says("", fn("2", "Bash", {"command": "grep -rn LIMIT src"})), gets("2", "src/a.py:3:LIMIT = 10  # Exit code 2 when it is passed"),
    says("", fn("3", "Edit", {"file_path": "src/a.py", "old_string": "LIMIT=10", "new_string": "LIMIT=20"})), gets("3", "String to replace not found in file.\nString: LIMIT=10"),
    says("", fn("4", "Edit", {"file_path": "src/a.py", "old_string": "LIMIT = 10", "new_string": "LIMIT = 20"})), gets("4", "The file src/a.py has been updated. Here's the result of running `cat -n` on a snippet of the edited file:\n3\tLIMIT = 20  # Exit code 2 when it is passed\n4\traise Error('String to replace not found in file.')"),
    says("", fn("5", "Read", {"file_path": "src/b.py"})), gets("5", "File does not exist."),
    says("", fn("6", "Bash", {"command": "python src/a.py"})), gets("6", "Command timed out after 2m 0.0s\nlistening"),
    says("", fn("7", "Read", {"file_path": "src/a.py"})), gets("7", "1\timport os\n2\t\n3\tLIMIT = 20"),
)
log(
    "swe-agent-editor", "openai", [], [[1, 0, "file_not_found"], [2, 0, "edit_failed"], [3, 0, "edit_failed"], [5, 0, "invalid_args"]],
    user("fix it"),
    says("", fn("1", "str_replace_editor", {"command": "view", "path": "/repo/a.py"})), gets("1", "Here's the result of running `cat -n` on /repo/a.py:\n     1\tError: No such file or directory\n     2\tpass"),
    says("", fn("2", "str_replace_editor", {"command": "view", "path": "/repo/z.py"})), gets("2", "ERROR:\nThe path /repo/z.py does not exist. Please provide a valid path."),
    says("", fn("3", "str_replace_editor", {"command": "str_replace", "path": "/repo/a.py", "old_str": "x = 1", "new_str": "x = 2"})), gets("3", "No replacement was performed, old_str `x = 1` did not appear verbatim in /repo/a.py."),
    says("", fn("4", "str_replace_editor", {"command": "str_replace", "path": "/repo/a.py", "old_str": "pass", "new_str": "x = 2"})), gets("4", "No replacement was performed. Multiple occurrences of old_str `pass` in lines [2, 9]. Please ensure it is unique"),
    says("", fn("5", "str_replace_editor", {"command": "str_replace", "path": "/repo/a.py", "old_str": "pass\n", "new_str": "x = 2\n"})), gets("5", "The file /repo/a.py has been edited. Review the changes and make sure they are as expected. Edit the file again if necessary."),
    says("", fn("6", "str_replace_editor", {"command": "insert", "path": "/repo/a.py"})), gets("6", "Error: Parameter `insert_line` is required for command: insert"),
)
log(
    "lenient-harness", "openai", [tool("search_web", "query:string", "limit:integer")], [[1, 0, "invalid_args"], [2, 0, "transport_error"]],
    user("look it up"),
    says("", fn("1", "search_web", {"query": "error codes", "limit": "5"})), gets("1", '{"success": true, "results": ["Error 404 explained", "What is a traceback?"]}'),
    says("", fn("2", "search_web", {"q": "error codes"})), gets("2", '{"success": false, "message": "query is required"}'),
    says("", fn("3", "search_web", {"query": "error codes"})), gets("3", '{"success": false, "message": "429 Too Many Requests"}'),
    says("", fn("4", "search_web", {"query": "error codes"})), gets("4", '{"success": true, "results": []}'),
)

# --- hermes -------------------------------------------------------------------------------------------------

QWEN = '<tool_call>\n{"name": "%s", "arguments": %s}\n</tool_call>'


def tag(name: str, arguments: Any) -> str:
    return QWEN % (name, arguments if isinstance(arguments, str) else json.dumps(arguments))


def response(*texts: str) -> dict[str, Any]:
    return user("\n".join(f"<tool_response>\n{text}\n</tool_response>" for text in texts))


log(
    "thinking", "hermes", [BASH], [[1, 0, "malformed_call"], [3, 0, "command_not_found"]],
    user("how many lines?"),
    says("<think>\nI could write <tool_call>{oops</tool_call> but no.\n</think>\n\n" + tag("bash", {"command": "wc -l a"})), response("12 a"),
    says("<think>\n</think>\n" + tag("bash", '{"command": "wc -l "b""}')), response("Error: the tool call is not valid JSON"),
    says(tag("bash", {"command": "echo '<tool_call>'"})), response("<tool_call>"),
    says('<tool_call>\n{"name": "bash", "arguments": {"command": "cloc ."}}'), response("bash: line 1: cloc: command not found"),
    says("12 lines."),
)
log(
    "one-broken-of-three", "hermes", [BASH], [[0, 1, "malformed_call"], [1, 0, "malformed_call"], [2, 1, "tool_not_found"]],
    user("three things"),
    says(tag("bash", {"command": "a"}) + tag("bash", "{'command': 'b'}") + tag("bash", {"command": "c"})), response("did a", "did c"),
    says('<tool_call>{"arguments": {"command": "ls"}}</tool_call>'), response("Error: tool call has no name"),
    says(tag("bash", {"command": "ls"}) + "\n" + tag("shell", {"command": "ls"})), response("x", "Error: shell is not available"),
    says("<tool_call>\n<function=bash>\n<parameter=command>\nls -la\n</parameter>\n</function>\n</tool_call>"), response("total 4"),
)
log(
    "nous-responses", "hermes", [], [[1, 0, "nonzero_exit"], [3, 0, "nonzero_exit"]],
    user("price of AAPL"),
    says(tag("get_stock", {"symbol": "TSLA"})), {"role": "tool", "content": '<tool_response>\n{"name": "get_stock", "content": {"price": 200.1, "errors": "none"}}\n</tool_response>'},
    says(tag("get_stock", {"symbol": "APPL"})), {"role": "tool", "content": '<tool_response>\n{"name": "get_stock", "content": {"error": "no such symbol"}}\n</tool_response>'},
    says(tag("get_stock", {"symbol": "AAPL"})), {"role": "tool", "content": '<tool_response>\n{"name": "get_stock", "content": {"price": 190.2}}\n</tool_response>'},
    says(tag("get_stock", {"symbol": ""})), {"role": "tool", "content": '<tool_response>\n{"name": "get_stock", "content": "Error: symbol is empty"}\n</tool_response>'},
    says("190.2"),
)

# --- react --------------------------------------------------------------------------------------------------

log(
    "langchain", "react", [], [[1, 0, "malformed_call"], [2, 0, "tool_not_found"]],
    user("Answer the following questions as best you can."),
    says("Thought: look it up\nAction: Search\nAction Input: height of the error tower\nObservation: "), user("Observation: The Error Tower is 90 m high; it failed inspection."),
    says("Thought: compute\nAction: Calculator"), user("Observation: Invalid Format: Missing 'Action Input:' after 'Action:'"),
    says("Thought: compute\nAction: Calc\nAction Input: 90 * 2"), user("Observation: Calc is not a valid tool, try one of [Search, Calculator]."),
    says("Thought: compute\nAction: Calculator\nAction Input: 90 * 2\nObservation: 181"), user("Observation: 180"),
    says("Thought: I know\nFinal Answer: 180 m"),
)
log(
    "json-blobs", "react", [BASH, READ], [[0, 0, "invalid_args"], [2, 0, "malformed_call"]],
    user("go"),
    says('Thought: read\nAction:\n```json\n{"action": "read_file", "action_input": {"file": "a.py"}}\n```'), user("Observation: Error: read_file needs path"),
    says('Thought: read\nAction:\n```json\n{"action": "read_file", "action_input": {"path": "a.py"}}\n```'), user("Observation: Error = 3\nThought = 4"),
    says("Thought: run\nAction: bash\nAction Input: {\"command\": \"ls"), user("Observation: Error: cannot parse Action Input"),
    says("Thought: run\nAction: bash\nAction Input: ls -la"), user("Observation: total 0"),
    says("Thought: run\nAction: bash\nAction Input: ```\ngrep -rn 'Action: x' .\n```"), user("Observation: ./log.txt:3:Action: x\n./log.txt:4:Error: failed"),
    says("Final Answer: done"),
)
LOGS.append(
    {
        "name": "one-scratchpad",
        "dialect": "react",
        "results": "own",
        "tools": [BASH, READ],
        "messages": [
            user("Question: which test fails?"),
            says(
                "Thought: run them\nAction: bash\nAction Input: {\"command\": \"pytest -q\"}\n"
                "Observation: FAILED tests/test_a.py::test_b - Error: boom\n1 failed\n"
                "Thought: read it\nAction: read_file\nAction Input: {\"path\": \"tests/test_b.py\"}\n"
                "Observation: Error: No such file: tests/test_b.py\n"
                "Thought: the other\nAction: read_file\nAction Input: {\"path\": \"tests/test_a.py\"}\n"
                "Observation: def test_b():\n    raise Error('boom')\n"
                "Thought: look\nAction: open\nAction Input: {\"path\": \"x\"}\n"
                "Observation: Error: no tool named open\n"
                "Thought: I know\nFinal Answer: test_b"
            ),
        ],
        "turns": 1,
        "labels": [[0, 1, "file_not_found"], [0, 3, "tool_not_found"]],
    }
)
log(
    "react-tool-role", "react", [BASH], [[1, 0, "nonzero_exit"], [2, 0, "traceback"]],
    user("go"),
    says("Thought: a\nAction: bash\nAction Input: {\"command\": \"ls\"}"), {"role": "tool", "content": "exit code: 0\na.py"},
    says("Thought: b\nAction: bash\nAction Input: {\"command\": \"ls b\"}"), {"role": "tool", "content": "exit code: 2\nls: cannot access 'b': No such file or directory"},
    says("Thought: c\nAction: bash[python a.py]"), {"role": "tool", "content": "exit code: 1\nTraceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nNameError: name 'x' is not defined"},
    says("Thought: d\nAction: bash[cat a.py]"), {"role": "tool", "content": "exit code: 0\nexit code: 1\nTraceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nNameError: name 'x' is not defined"},
    says("Final Answer: x is undefined"),
)
