"""Logs in the shape of widely used harnesses. Written and labelled when the annotator existed, before it had read them."""

from __future__ import annotations

import json
from typing import Any

from oddities import fn, gets, log, response, says, tag, user
from telling import tool


def shell(call_id: str, command: str, name: str = "bash") -> dict[str, Any]:
    return fn(call_id, name, {"command": command})


def codex(output: str, code: int) -> str:
    return json.dumps({"output": output, "metadata": {"exit_code": code, "duration_seconds": 0.1}})


log(
    "codex", "openai", [], [[1, 0, "nonzero_exit"], [2, 0, "command_not_found"], [5, 0, "traceback"], [6, 0, "timeout"]],
    user("fix the failing import"),
    says("", fn("1", "shell", {"command": ["bash", "-lc", "ls"]})), gets("1", codex("setup.py\nsrc\n", 0)),
    says("", fn("2", "shell", {"command": ["bash", "-lc", "rg -n 'import foo'"]})), gets("2", codex("", 1)),
    says("", fn("3", "shell", {"command": ["bash", "-lc", "pyrigt src"]})), gets("3", codex("bash: line 1: pyrigt: command not found\n", 127)),
    says("", fn("4", "shell", {"command": ["bash", "-lc", "cat src/a.py"]})), gets("4", codex("import foo\n# Error: exit_code 1\n", 0)),
    says("", fn("5", "shell", {"command": ["apply_patch", "*** Begin Patch\n*** End Patch"]})), gets("5", codex("Success. Updated the following files:\nM src/a.py\n", 0)),
    says("", fn("6", "shell", {"command": ["bash", "-lc", "python -c 'import src.a'"]})), gets("6", codex("Traceback (most recent call last):\n  File \"<string>\", line 1, in <module>\n  File \"src/a.py\", line 1, in <module>\n    import fooo\nModuleNotFoundError: No module named 'fooo'\n", 1)),
    says("", fn("7", "shell", {"command": ["bash", "-lc", "python -m src.serve"], "timeout": 1000})), gets("7", "command timed out after 1000 milliseconds\nlistening on 8000"),
    says("", fn("8", "shell", {"command": ["bash", "-lc", "python -m pytest -q"]})), gets("8", codex("3 passed in 0.1s\n", 0)),
    says("Fixed."),
)
log(
    "openhands", "openai", [], [[1, 0, "nonzero_exit"], [2, 0, "file_not_found"], [3, 0, "edit_failed"], [6, 0, "timeout"]],
    user("task"),
    says("", shell("1", "pwd && ls", "execute_bash")), gets("1", "EXECUTION RESULT of [execute_bash]:\n/workspace\nrepo\n[The command completed with exit code 0.]\n[Current working directory: /workspace]\n[Python interpreter: /usr/bin/python]\n[Command finished with exit code 0]"),
    says("", shell("2", "cd repo && git log | grep Nobody", "execute_bash")), gets("2", "EXECUTION RESULT of [execute_bash]:\n\n[The command completed with exit code 1.]\n[Current working directory: /workspace/repo]\n[Python interpreter: /usr/bin/python]\n[Command finished with exit code 1]"),
    says("", fn("3", "str_replace_editor", {"command": "view", "path": "/workspace/repo/x.py"})), gets("3", "EXECUTION RESULT of [str_replace_editor]:\nERROR:\nInvalid `path` parameter: /workspace/repo/x.py. The path /workspace/repo/x.py does not exist. Please provide a valid path."),
    says("", fn("4", "str_replace_editor", {"command": "str_replace", "path": "/workspace/repo/a.py", "old_str": "foo", "new_str": "bar"})), gets("4", "EXECUTION RESULT of [str_replace_editor]:\nERROR:\nNo replacement was performed, old_str `foo` did not appear verbatim in /workspace/repo/a.py."),
    says("", fn("5", "str_replace_editor", {"command": "str_replace", "path": "/workspace/repo/a.py", "old_str": "Foo", "new_str": "bar"})), gets("5", "EXECUTION RESULT of [str_replace_editor]:\nThe file /workspace/repo/a.py has been edited. Here's the result of running `cat -n` on a snippet of /workspace/repo/a.py:\n     1\traise ValueError('ERROR: bar')\nReview the changes and make sure they are as expected."),
    says("", shell("6", "cat ci.log", "execute_bash")), gets("6", "EXECUTION RESULT of [execute_bash]:\nstep 3\n[Command finished with exit code 2]\n[The command completed with exit code 0.]\n[Current working directory: /workspace/repo]\n[Python interpreter: /usr/bin/python]\n[Command finished with exit code 0]"),
    says("", shell("7", "python serve.py", "execute_bash")), gets("7", "EXECUTION RESULT of [execute_bash]:\nlistening\n[The command timed out after 120 seconds. You may wait longer to see additional output by sending empty command '']\n[Current working directory: /workspace/repo]\n[Python interpreter: /usr/bin/python]\n[Command finished with exit code -1]"),
    says("done"),
)
log(
    "mini-swe-agent", "openai", [], [[1, 0, "nonzero_exit"], [3, 0, "output_limit"], [4, 0, "command_not_found"]],
    user("task"),
    says("THOUGHT: look", shell("1", "ls -la")), gets("1", "<returncode>0</returncode>\n<output>\ntotal 4\nREADME\n</output>"),
    says("THOUGHT: find", shell("2", "grep -rn needle .")), gets("2", "<returncode>1</returncode>\n<output>\n</output>"),
    says("THOUGHT: quote", shell("3", "cat old_trajectory.txt")), gets("3", "<returncode>0</returncode>\n<output>\n<returncode>1</returncode>\n<output>\nError: x\n</output>\n</output>"),
    says("THOUGHT: all", shell("4", "cat huge.log")), gets("4", "<returncode>0</returncode>\n<warning>\nThe output of your last command was too long.\nPlease try a different command that produces less output.\n</warning>\n<output_head>\n" + "line of text\n" * 380 + "</output_head>\n<elided_chars>\n90210 characters elided\n</elided_chars>\n<output_tail>\n" + "line of text\n" * 380 + "</output_tail>"),
    says("THOUGHT: tree", shell("5", "tree src")), gets("5", "<returncode>127</returncode>\n<output>\n/bin/sh: 1: tree: not found\n</output>"),
    says("THOUGHT: finish", shell("6", "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")), gets("6", "<returncode>0</returncode>\n<output>\nCOMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n</output>"),
)
log(
    "langgraph", "openai", [tool("multiply", "a:integer b:integer"), tool("lookup", "city:string")],
    [[0, 0, "invalid_args"], [1, 0, "tool_not_found"], [2, 1, "nonzero_exit"]],
    user("2 x 3, and what is Ulm like?"),
    says("", fn("1", "multiply", {"a": 2})), gets("1", "Error invoking tool 'multiply' with kwargs {'a': 2} with error:\n b: Field required\n Please fix the error and try again.", name="multiply", status="error"),
    says("", fn("2", "divide", {"a": 2, "b": 3})), gets("2", "Error: divide is not a valid tool, try one of [multiply, lookup].", name="divide", status="error"),
    says("", fn("3", "multiply", {"a": 2, "b": 3}), fn("4", "lookup", {"city": "Um"})), gets("3", "6", name="multiply"), gets("4", "Error: KeyError('Um')\n Please fix your mistakes.", name="lookup", status="error"),
    says("", fn("5", "lookup", {"city": "Ulm"})), gets("5", "Ulm has the tallest steeple. Error-free guide inside.", name="lookup"),
    says("6, and tall."),
)
log(
    "qwen-agent", "hermes", [tool("code_interpreter", "code:string"), tool("web_search", "query:string", "top_k:integer")],
    [[0, 0, "traceback"], [2, 0, "invalid_args"], [4, 0, "malformed_call"], [5, 0, "transport_error"]],
    user("plot it"),
    says(tag("code_interpreter", {"code": "import pandas as pd\ndf = pd.read_csv('d.csv')"})), response("Traceback (most recent call last):\n  File \"<stdin>\", line 2, in <module>\nFileNotFoundError: [Errno 2] No such file or directory: 'd.csv'"),
    says(tag("code_interpreter", {"code": "print(open('log').read())"})), response("stdout:\nTraceback (most recent call last):\n  File \"x\", line 1\nValueError: old news"),
    says(tag("web_search", {"query": "csv", "top_k": "many"})), response("Error: top_k must be an integer"),
    says(tag("web_search", {"query": "Error: 503 Service Unavailable meaning"})), response("[1] What does 'Error: 503 Service Unavailable' mean?\n[2] Tool not found - how to fix"),
    says('<tool_call>\n{"name": "web_search", "arguments": {"query": "unterminated}}\n</tool_call>'), response("Error: failed to parse the tool call"),
    says(tag("web_search", {"query": "csv"})), response("Error: HTTP 429 Too Many Requests"),
    says("<function=web_search>\n<parameter=query>\nx\n</parameter>\n</function> is how another model would write it."),
)
log(
    "coder-xml", "hermes", [tool("bash", "command:string", "timeout:integer background:boolean")], [[1, 0, "invalid_args"], [2, 0, "nonzero_exit"]],
    user("go"),
    says("<tool_call>\n<function=bash>\n<parameter=command>\necho 1\n</parameter>\n<parameter=timeout>\n30\n</parameter>\n<parameter=background>\nfalse\n</parameter>\n</function>\n</tool_call>"), response("1"),
    says("<tool_call>\n<function=bash>\n<parameter=timeout>\nten\n</parameter>\n</function>\n</tool_call>"), response("Error: command is missing"),
    says("<tool_call>\n<function=bash>\n<parameter=command>\nrmdir src\n</parameter>\n</function>\n</tool_call>"), response("rmdir: failed to remove 'src': Directory not empty"),
    says("<tool_call>\n<function=bash>\n<parameter=command>\ncat <<'EOF' > a.json\n{\"error\": \"</tool_response>\"}\nEOF\ncat a.json\n</parameter>\n</function>\n</tool_call>"), response("{\"error\": \"</tool_response>\"}"),
    says("ok"),
)
log(
    "bare-terminal", "openai", [tool("terminal", "command:string")],
    [[0, 0, "nonzero_exit"], [2, 0, "nonzero_exit"], [4, 0, "nonzero_exit"], [6, 0, "traceback"], [8, 0, "nonzero_exit"], [9, 0, "command_not_found"], [11, 0, "nonzero_exit"]],
    user("deploy"),
    says("", shell("1", "cd deploy && ls", "terminal")), gets("1", "bash: line 1: cd: deploy: No such file or directory"),
    says("", shell("2", "docker ps", "terminal")), gets("2", "CONTAINER ID   IMAGE     COMMAND   CREATED   STATUS    PORTS     NAMES"),
    says("", shell("3", "docker run web", "terminal")), gets("3", "docker: Error response from daemon: pull access denied for web, repository does not exist or may require 'docker login'.\nSee 'docker run --help'."),
    says("", shell("4", "docker logs web2 | tail -2", "terminal")), gets("4", "ERROR worker crashed\nTraceback (most recent call last): see above"),
    says("", shell("5", "npm run build", "terminal")), gets("5", "npm ERR! Missing script: \"build\"\nnpm ERR!\nnpm ERR! To see a list of scripts, run:\nnpm ERR!   npm run"),
    says("", shell("6", "npm test", "terminal")), gets("6", "FAIL src/a.test.js\n  Error: expected 1 to be 2\nTests: 1 failed, 3 passed"),
    says("", shell("7", "python manage.py migrate", "terminal")), gets("7", "Operations to perform:\n  Apply all migrations\nTraceback (most recent call last):\n  File \"manage.py\", line 22, in <module>\n    main()\ndjango.db.utils.OperationalError: could not connect to server: Connection refused"),
    says("", shell("8", "curl -s localhost:8000/health", "terminal")), gets("8", '{"status": "error", "error": "database down"}'),
    says("", shell("9", "psql -c 'select 1'", "terminal")), gets("9", "psql: error: connection to server on socket \"/run/postgresql/.s.PGSQL.5432\" failed: No such file or directory"),
    says("", shell("10", "sudo systemclt start postgresql", "terminal")), gets("10", "sudo: systemclt: command not found"),
    says("", shell("11", "sudo systemctl start postgresql", "terminal")), gets("11", ""),
    says("", shell("12", "git push origin main", "terminal")), gets("12", "fatal: 'origin' does not appear to be a git repository\nfatal: Could not read from remote repository.\n\nPlease make sure you have the correct access rights\nand the repository exists."),
    says("", shell("13", "git remote -v; git status", "terminal")), gets("13", "On branch main\nnothing to commit, working tree clean"),
    says("", shell("14", "python -c \"raise SystemExit('Error: stop')\" || echo handled", "terminal")), gets("14", "Error: stop\nhandled"),
)
log(
    "react-files", "react", [], [[1, 0, "file_not_found"], [3, 0, "tool_not_found"], [5, 0, "nonzero_exit"]],
    user("What is in the report?"),
    says("I should list the files.\n\nAction: list_directory\nAction Input: {}"), user("Observation: error_report.txt\ntraceback.txt"),
    says("Thought: read\nAction: read_file\nAction Input: report.txt"), user("Observation: Error: no such file or directory: report.txt"),
    says("Thought: read\nAction: read_file\nAction Input: error_report.txt"), user("Observation: Error: no such file or directory: settings.toml\nError: giving up"),
    says("Thought: summarise\nAction: Summarize[the report]"), user("Observation: Summarize is not a valid tool, try one of [list_directory, read_file, ask]."),
    says("Thought: ask\nAction: ask\nAction Input: \"Is settings.toml missing?\""), user("Observation: Yes, it was not found last week either."),
    says("Thought: ask more\nAction: ask\nAction Input: Who deleted it?"), user("Observation: Error: the operator has left"),
    says("Thought: enough\nFinal Answer: settings.toml is missing."),
)
