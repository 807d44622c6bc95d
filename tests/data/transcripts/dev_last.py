"""A third set of logs of unknown harnesses, written after the rules had been changed for the second: read once, then used."""

from __future__ import annotations

from functools import partial

from rows import rows as told
from telling import tool

rows = partial(told, results="last")

rows(
    "last-workbench", "openai", [tool("sh", "script:string"), tool("load", "name:string"), tool("store", "name:string value:string")],
    ("sh", {"script": "pwd"}, "$ pwd\n/w\n-- finished, status 0 --", None),
    ("sh", {"script": "ls q"}, "$ ls q\nls: cannot access 'q': No such file or directory\n-- finished, status 2 --", "nonzero_exit"),
    ("sh", {"script": "cat h"}, "$ cat h\n-- finished, status 2 --\n-- finished, status 0 --", None),
    ("sh", {"script": "foo"}, "$ foo\nsh: foo: not found\n-- finished, status 127 --", "command_not_found"),
    ("load", {"key": "x"}, "load: unknown argument 'key'", "invalid_args"),
    ("load", {"name": "x"}, "load: no entry named x", "nonzero_exit"),
    ("sotre", {"name": "x", "value": "1"}, "sotre: no such tool", "tool_not_found"),
    ("store", {"name": "x", "value": "error: none"}, "stored", None),
)
rows(
    "last-emoji", "openai", [],
    ("execute_bash", {"command": "npm run lint"}, "❌ Command failed (exit code 1)\n\n> lint\n\n/w/a.js\n  1:1  error  no-undef", "nonzero_exit"),
    ("execute_bash", {"command": "npm run build"}, "✅ Command succeeded\n\n> build\n\ndone with 0 errors", None),
    ("read_file", {"path": "z.js"}, "❌ File not found: z.js", "file_not_found"),
    ("str_replace", {"path": "a.js", "old": "x", "new": "y"}, "❌ Could not find the text to replace in a.js", "edit_failed"),
    ("web_search", {"query": "x"}, "⚠️ Search failed: 429 Too Many Requests", "transport_error"),
    ("execute_bash", {"command": "sleep 100"}, "⏱️ Command timed out after 60s", "timeout"),
    ("read_file", {"path": "c.js"}, "// ❌ File not found: z.js\nthrow 1", None),
)
rows(
    "last-react", "react", [],
    ("Search", {"query": "capital of Absurdistan"}, "Could not find [Absurdistan]. Similar: ['Afghanistan', 'Absurdism'].", None),
    ("Lookup", {"term": "error"}, "(Result 1 / 2) The error was found in 1998.", None),
    ("Calculator", {"input": "sqrt(-1)"}, "ValueError: math domain error", "nonzero_exit"),
    ("Calculater", {"input": "1"}, "Error: tool 'Calculater' does not exist. Available tools: Search, Lookup, Calculator", "tool_not_found"),
    ("Python", {"code": "print(1/0)"}, "Traceback (most recent call last):\n  File \"<stdin>\", line 1, in <module>\nZeroDivisionError: division by zero", "traceback"),
    ("Python", {"code": "print('failed: 0')"}, "failed: 0", None),
    ("Shell", {"command": "git stash pop"}, "error: Your local changes to the following files would be overwritten by merge:\n\ta.py\nPlease commit your changes or stash them before you merge.\nAborting", "nonzero_exit"),
    ("Shell", {"command": "git status -s"}, " M a.py", None),
    ("Shell", {"command": "make -k all 2>&1 | tail -3"}, "cc -c b.c\nmake: *** [Makefile:9: a.o] Error 1\nmake: Target 'all' not remade because of errors.", "nonzero_exit"),
)
rows(
    "last-qwen", "hermes", [tool("search_repo", "query:string"), tool("run_bash", "cmd:string"), tool("modify_file", "path:string find:string replace:string")],
    ("run_bash", {"cmd": "poetry install"}, "The currently activated Python version 3.8.1 is not supported by the project (^3.10).\nTrying to find and use a compatible version.\n\nPoetry was unable to find a compatible version. If you have one, you can explicitly use it via the \"env use\" command.", "nonzero_exit"),
    ("run_bash", {"cmd": "uv pip install nope-x"}, "  × No solution found when resolving dependencies:\n  ╰─▶ Because nope-x was not found in the package registry and you require nope-x, we can conclude that your requirements are unsatisfiable.", "nonzero_exit"),
    ("run_bash", {"cmd": "pytest -q"}, "F.\n=== FAILURES ===\nE   assert 1 == 2\n1 failed, 1 passed in 0.2s", None),
    ("run_bash", {"cmd": "python -c 'import os; os.abort()'"}, "Aborted (core dumped)", "nonzero_exit"),
    ("modify_file", {"path": "a.py", "find": "x", "replace": "y"}, "Error: 'x' occurs 4 times in a.py; give more context", "edit_failed"),
    ("modify_file", {"path": "a.py", "find": "x = 1"}, "modify_file is missing its argument replace", "invalid_args"),
    ("search_repo", {"query": "def main"}, "0 results", None),
    ("search_repo", {"query": "ImportError"}, "src/a.py:1: except ImportError: # module not found", None),
    ("run_bash", {"cmd": "find / -name x"}, "/a/x\n" * 400 + "<truncated: 31000 more bytes>", "output_limit"),
    ("run_bash", {"cmd": "ping -c1 db"}, "ping: db: Name or service not known", "nonzero_exit"),
)
rows(
    "last-services", "openai", [],
    ("crm_get_contact", {"contact_id": "7"}, '{"contact_id": "7", "name": "Ann", "last_call": "failed", "status": "inactive"}', None),
    ("crm_update_contact", {"contact_id": "7", "phone": "abc"}, '{"code": "VALIDATION_ERROR", "message": "phone is not a valid number"}', "invalid_args"),
    ("crm_update_contact", {"contact_id": "8", "phone": "1"}, '{"code": "NOT_FOUND", "message": "contact 8"}', "nonzero_exit"),
    ("crm_update_contact", {"contact_id": "7", "phone": "1"}, '{"updated": true}', None),
    ("payments_refund", {"id": "p1"}, "Refund failed: charge already refunded", "nonzero_exit"),
    ("payments_list", {}, '{"payments": [{"id": "p1", "status": "failed"}], "next": null}', None),
    ("calendar_find_slot", {"day": "Sunday"}, "There are no free slots on Sunday.", None),
    ("calendar_book", {"slot": "9"}, "Slot 9 is no longer available", "nonzero_exit"),
    ("maps_route", {"from": "a", "to": "b"}, "ZERO_RESULTS", None),
    ("maps_geocode", {"q": "x"}, "REQUEST_DENIED: The provided API key is invalid.", "nonzero_exit"),
    ("db_query", {"sql": "select 1 from"}, 'ERROR:  syntax error at end of input\nLINE 1: select 1 from', "nonzero_exit"),
    ("db_query", {"sql": "select level, text from log"}, "ERROR | syntax error at end of input\nINFO | ok", None),
    ("vision_describe", {"image": "a.png"}, "The image shows an error dialog: 'File not found'.", None),
    ("vision_describe", {"image": "b.png"}, "Failed to load image b.png: cannot identify image file", "nonzero_exit"),
    ("weather", {"city": "Ulm"}, "Service temporarily unavailable, try again later.", "transport_error"),
    ("weather", {"town": "Ulm"}, "Got unexpected argument(s): town", "invalid_args"),
    ("wheather", {"city": "Ulm"}, "Function wheather is not defined.", "tool_not_found"),
    ("memory_read", {"key": "todo"}, "fix: request failed with timeout", None),
    ("memory_read", {"key": "tood"}, "Key 'tood' not found in memory", "nonzero_exit"),
    ("sleep", {"seconds": 900}, "Error: the tool call exceeded the 300 s time limit", "timeout"),
    ("queue_push", {"item": "x"}, "ConnectionResetError: [Errno 104] Connection reset by peer", "transport_error"),
)
rows(
    "last-flagged", "openai", [],
    ("Bash", {"command": "ls x"}, "Exit code 2\nls: cannot access 'x': No such file or directory", "nonzero_exit", {"is_error": True}),
    ("Bash", {"command": "python x.py"}, "Exit code 1\nTraceback (most recent call last):\n  File \"/w/x.py\", line 1, in <module>\nNameError: name 'y' is not defined", "traceback", {"is_error": True}),
    ("Bash", {"command": "foo"}, "Exit code 127\n/bin/bash: line 1: foo: command not found", "command_not_found", {"is_error": True}),
    ("Bash", {"command": "sleep 999"}, "Command timed out after 2m 0.0s", "timeout", {"is_error": True}),
    ("Read", {"file_path": "/w/n"}, "File does not exist. Current working directory: /w", "file_not_found", {"is_error": True}),
    ("Edit", {"file_path": "/w/a", "old_string": "x", "new_string": "y"}, "<tool_use_error>String to replace not found in file.\nString: x</tool_use_error>", "edit_failed", {"is_error": True}),
    ("Bash", {"command": "cat log"}, "Error: x\nExit code 1", None, {"is_error": False}),
    ("Task", {"prompt": "x"}, "The user doesn't want to proceed with this tool use. The tool use was rejected.", "nonzero_exit", {"is_error": True}),
    ("WebFetch", {"url": "https://x.example"}, "Request failed with status code 403", "nonzero_exit", {"is_error": True}),
)
