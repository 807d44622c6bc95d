"""More logs in the shape of other harnesses, written and labelled after those of ``harnesses.py`` had been read."""

from __future__ import annotations

import json

from oddities import fn, gets, log, response, says, tag, user
from telling import tool


def gemini(command: str, out: str, err: str, code: int) -> str:
    empty = "(empty)"
    return f"Command: {command}\nDirectory: (root)\nStdout: {out or empty}\nStderr: {err or empty}\nError: (none)\nExit Code: {code}\nSignal: (none)\nBackground PIDs: (none)\nProcess Group PGID: 4242"


log(
    "gemini-cli", "openai", [tool("run_shell_command", "command:string", "description:string directory:string"), tool("read_file", "absolute_path:string", "offset:integer limit:integer"), tool("replace", "file_path:string old_string:string new_string:string")],
    [[1, 0, "nonzero_exit"], [2, 0, "edit_failed"], [4, 0, "file_not_found"], [5, 0, "invalid_args"]],
    user("go"),
    says("", fn("1", "run_shell_command", {"command": "ls"})), gets("1", gemini("ls", "a.py", "", 0)),
    says("", fn("2", "run_shell_command", {"command": "ls b"})), gets("2", gemini("ls b", "", "ls: cannot access 'b': No such file or directory", 2)),
    says("", fn("3", "replace", {"file_path": "/w/a.py", "old_string": "x", "new_string": "y"})), gets("3", "Failed to edit, 0 occurrences found for old_string in /w/a.py. No edits made. The exact text in old_string was not found."),
    says("", fn("4", "replace", {"file_path": "/w/a.py", "old_string": "xx", "new_string": "y"})), gets("4", "Successfully modified file: /w/a.py (1 replacements)."),
    says("", fn("5", "read_file", {"absolute_path": "/w/c.py"})), gets("5", "File not found: /w/c.py"),
    says("", fn("6", "read_file", {"path": "/w/a.py"})), gets("6", "params must have required property 'absolute_path'"),
    says("", fn("7", "read_file", {"absolute_path": "/w/a.py"})), gets("7", "# Error: File not found: /w/c.py\nraise SystemExit(1)"),
    says("", fn("8", "run_shell_command", {"command": "cat a.log"})), gets("8", gemini("cat a.log", "Exit Code: 3\nError: boom", "", 0)),
)
log(
    "claude-errors", "openai", [], [[0, 0, "edit_failed"], [2, 0, "nonzero_exit"], [4, 0, "tool_not_found"], [5, 0, "invalid_args"], [6, 0, "timeout"]],
    user("go"),
    says("", fn("1", "Edit", {"file_path": "a.py", "old_string": "x", "new_string": "y"})), gets("1", "<tool_use_error>Found 3 matches of the string to replace, but replace_all is false. To replace all occurrences, set replace_all to true.</tool_use_error>"),
    says("", fn("2", "Grep", {"pattern": "tool_use_error"})), gets("2", "a.py:3:<tool_use_error>\nb.py:9:Error: x"),
    says("", fn("3", "Bash", {"command": "npm run lint"})), gets("3", "Exit code 1\n\n> lint\n> eslint .\n\n/w/a.js\n  1:1  error  no-undef"),
    says("", fn("4", "Bash", {"command": "npm run lint -- --fix"})), gets("4", "> lint\n> eslint . --fix"),
    says("", fn("5", "Brwose", {"url": "x"})), gets("5", "<tool_use_error>Error: No such tool available: Brwose</tool_use_error>"),
    says("", fn("6", "Read", {"path": "a.py"})), gets("6", "<tool_use_error>InputValidationError: Read failed due to the following issue:\nThe required parameter `file_path` is missing</tool_use_error>"),
    says("", fn("7", "Bash", {"command": "make watch"})), gets("7", "Command timed out after 2m 0.0s Watching for changes"),
    says("", fn("8", "WebFetch", {"url": "https://example.org/errors"})), gets("8", "The page explains three errors: 'Command timed out', 'Tool not found' and 'Exit code 1'."),
    says("done"),
)
log(
    "mcp", "openai", [tool("github_get_issue", "owner:string repo:string number:integer"), tool("github_create_comment", "owner:string repo:string number:integer body:string")],
    [[0, 0, "invalid_args"], [1, 0, "nonzero_exit"], [3, 0, "transport_error"]],
    user("comment on issue 7"),
    says("", fn("1", "github_get_issue", {"owner": "a", "repo": "b", "number": "7"})), gets("1", "MCP error -32602: Invalid arguments for tool github_get_issue: number: Expected number, received string"),
    says("", fn("2", "github_get_issue", {"owner": "a", "repo": "bb", "number": 7})), gets("2", json.dumps({"content": [{"type": "text", "text": "Not Found: Resource not found"}], "isError": True})),
    says("", fn("3", "github_get_issue", {"owner": "a", "repo": "b", "number": 7})), gets("3", json.dumps({"content": [{"type": "text", "text": "Crash: Error: timed out after 3 s. Traceback (most recent call last): ..."}], "isError": False})),
    says("", fn("4", "github_create_comment", {"owner": "a", "repo": "b", "number": 7, "body": "see Error: x"})), gets("4", "MCP error -32001: Request timed out: 502 Bad Gateway"),
    says("", fn("5", "github_create_comment", {"owner": "a", "repo": "b", "number": 7, "body": "see Error: x"})), gets("5", json.dumps({"content": [{"type": "text", "text": "created"}]})),
    says("commented"),
)
log(
    "langchain-agent", "react", [tool("python_repl", "code:string"), tool("sql_db_query", "query:string"), tool("sql_db_schema", "tables:string")],
    [[0, 0, "nonzero_exit"], [2, 0, "traceback"]],
    user("how many failed orders?"),
    says("Thought: query\nAction: sql_db_query\nAction Input: SELECT count(*) FROM order WHERE status = 'failed'"), user("Observation: Error: (sqlite3.OperationalError) near \"order\": syntax error\n[SQL: SELECT count(*) FROM order WHERE status = 'failed']"),
    says("Thought: schema\nAction: sql_db_schema\nAction Input: orders"), user("Observation: CREATE TABLE orders (id INTEGER, status TEXT, error TEXT)"),
    says("Thought: python\nAction: python_repl\nAction Input: print(1/0)"), user("Observation: ZeroDivisionError('division by zero')"),
    says("Thought: query\nAction: sql_db_query\nAction Input: SELECT error FROM orders LIMIT 2"), user("Observation: [('Error: timeout',), ('Tool not found',)]"),
    says("I will simply answer: 12"), user("Observation: Invalid Format: Missing 'Action:' after 'Thought:'"),
    says("Thought: I now know\nFinal Answer: 12"),
)
log(
    "local-qwen", "hermes", [tool("execute_command", "command:string"), tool("read_file", "path:string"), tool("replace_in_file", "path:string diff:string")],
    [[1, 0, "file_not_found"], [2, 0, "tool_not_found"], [3, 0, "nonzero_exit"], [4, 0, "edit_failed"], [6, 0, "command_not_found"]],
    user("hello"),
    says("Sure.\n" + tag("execute_command", {"command": "ls"})), response("Command executed.\nOutput:\na.py  error.log"),
    says(tag("read_file", {"path": "b.py"})), response("The tool execution failed with the following error:\n<error>\nError reading file: ENOENT: no such file or directory, open '/w/b.py'\n</error>"),
    says(tag("list", {"path": "."})), response("Error: Tool \"list\" does not exist"),
    says(tag("execute_command", {"command": "cat b.py"})), response("Command executed.\nOutput:\ncat: b.py: No such file or directory"),
    says(tag("replace_in_file", {"path": "a.py", "diff": "<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE"})), response("The tool execution failed with the following error:\n<error>\nThe SEARCH block:\nx\n...does not match anything in the file.\n</error>"),
    says(tag("execute_command", {"command": "cat error.log"})), response("Command executed.\nOutput:\nThe tool execution failed with the following error:\n<error>\nboom\n</error>"),
    says(tag("execute_command", {"command": "fd a.py"})), response("Command executed.\nOutput:\nzsh: command not found: fd"),
    says(tag("execute_command", {"command": "find . -name a.py"})), response("Command executed.\nOutput:\n./a.py"),
    says("done"),
)
log(
    "swe-agent", "openai", [], [[1, 0, "nonzero_exit"], [3, 0, "traceback"], [4, 0, "file_not_found"], [5, 0, "timeout"]],
    user("go"),
    says("", fn("1", "bash", {"command": "find_file errors.py"})), gets("1", "OBSERVATION:\nFound 1 matches for \"errors.py\" in /repo:\n/repo/errors.py"),
    says("", fn("2", "bash", {"command": "python setup.py bdist"})), gets("2", "OBSERVATION:\nusage: setup.py [global_opts] cmd1 [cmd1_opts]\n   or: setup.py --help\n\nerror: invalid command 'bdist'"),
    says("", fn("3", "bash", {"command": "grep -n Error errors.py"})), gets("3", "OBSERVATION:\n1:class Error(Exception): ...\n2:# Traceback (most recent call last):"),
    says("", fn("4", "bash", {"command": "python reproduce.py"})), gets("4", "OBSERVATION:\nstart\nTraceback (most recent call last):\n  File \"/repo/reproduce.py\", line 2, in <module>\n    f()\n  File \"/repo/errors.py\", line 7, in f\n    raise ValueError(\"a\\nb\")\nValueError: a\nb"),
    says("", fn("5", "open", {"path": "/repo/nope.py"})), gets("5", "OBSERVATION:\nFile /repo/nope.py not found"),
    says("", fn("6", "bash", {"command": "python loop.py"})), gets("6", "OBSERVATION:\nThe command 'python loop.py' was cancelled because it took more than 30 seconds. Please try a different command that completes more quickly."),
    says("", fn("7", "bash", {"command": "git diff"})), gets("7", "OBSERVATION:\nYour command ran successfully and did not produce any output."),
    says("ok"),
)
