"""A second lot of invented harnesses, written after the rules had been changed for the first: read once, then used."""

from __future__ import annotations

from functools import partial

from rows import rows as told
from telling import tool

rows = partial(told, results="fresh")

rows(
    "fresh-two-vm", "openai", [tool("vm_exec", "command:string timeout_s:integer"), tool("vm_read", "path:string"), tool("vm_patch", "path:string patch:string")],
    ("vm_exec", {"command": "make -C src", "timeout_s": 60}, "[vm] finished (status: 2) in 1.1s\nmake: Entering directory '/w/src'\nmake: *** No targets.  Stop.", "nonzero_exit"),
    ("vm_exec", {"command": "ls", "timeout_s": 60}, "[vm] finished (status: 0) in 0.1s\nerror.txt", None),
    ("vm_exec", {"command": "tail -f x", "timeout_s": 5}, "[vm] gave up after 5s: command still running", "timeout"),
    ("vm_read", {"path": "/w/none"}, "[vm] cannot read /w/none: no such file", "file_not_found"),
    ("vm_read", {"path": "/w/error.txt"}, "[vm] cannot read /w/none: no such file\nthat was yesterday\nall fine since", None),
    ("vm_patch", {"path": "/w/a.c", "patch": "@@"}, "[vm] patch rejected: hunk 1 does not match", "edit_failed"),
    ("vm_exec", {"command": "ls", "timeout_s": "x"}, "[vm] bad argument timeout_s: expected integer", "invalid_args"),
    ("vm_halt", {}, "[vm] unknown operation vm_halt", "tool_not_found"),
)
rows(
    "fresh-two-objects", "hermes", [],
    ("bash", {"cmd": "cat x"}, '{"rc": 1, "out": "cat: x: No such file or directory"}', "nonzero_exit"),
    ("bash", {"cmd": "ls"}, '{"rc": 0, "out": "x y"}', None),
    ("bash", {"cmd": "pyhton"}, '{"rc": 127, "out": "bash: pyhton: command not found"}', "command_not_found"),
    ("open_page", {"url": "http://q"}, '{"ok": false, "problem": "dns lookup failed for q"}', "transport_error"),
    ("open_page", {"url": "http://r"}, '{"ok": true, "title": "Error 500 explained"}', None),
    ("set_cell", {"sheet": "A", "cell": "ZZ0"}, '{"ok": false, "problem": "cell must match [A-Z]+[1-9][0-9]*"}', "invalid_args"),
    ("set_cell", {"sheet": "B", "cell": "A1"}, '{"ok": false, "problem": "no sheet named B"}', "nonzero_exit"),
    ("get_ticket", {"key": "X-1"}, '{"key": "X-1", "state": "failed", "error": "build broke", "assignee": "ann"}', None),
    ("get_ticket", {"key": "X-9"}, '{"ok": false, "problem": "daily call limit reached"}', "budget"),
)
rows(
    "fresh-two-notebook", "react", [],
    ("execute_python", {"code": "f(1)"}, "Error: NameError\nname 'f' is not defined", "traceback"),
    ("execute_python", {"code": "print('Error: x')"}, "Error: x", None),
    ("execute_python", {"code": "import os; os.remove('q')"}, "[stderr] Traceback (most recent call last):\n  File \"<cell>\", line 1, in <module>\nFileNotFoundError: [Errno 2] No such file or directory: 'q'", "traceback"),
    ("execute_python", {"code": "while 1: pass"}, "Kernel interrupted: cell ran longer than 60s", "timeout"),
    ("execute_python", {"code": "open('a.log').read()"}, "'ERROR: disk full\\nTraceback (most recent call last)'", None),
    ("execute_bash_code", {"language": "bash", "code": "exit 3"}, "status: exited(3)", "nonzero_exit"),
)
rows(
    "fresh-two-files", "openai", [],
    ("open_document", {"path": "notes/a.md"}, "There is no file at notes/a.md.", "file_not_found"),
    ("open_document", {"path": "notes/b.md"}, "There is no file at notes/a.md, said the log.\nSo I looked elsewhere.\nThird line.", None),
    ("replace_lines", {"path": "notes/b.md", "start": 90, "end": 95, "text": "x"}, "Lines 90-95 are beyond the end of notes/b.md (12 lines).", "invalid_args"),
    ("replace_text", {"path": "notes/b.md", "old": "q", "new": "r"}, "Nothing replaced: 'q' is not in notes/b.md.", "edit_failed"),
    ("replace_text", {"path": "notes/b.md", "old": "S", "new": "r"}, "Replaced 1 occurrence in notes/b.md.\nWarning: the file has lint errors:\n  line 3: undefined name", None),
    ("create_document", {"path": "notes/b.md", "text": "x"}, "notes/b.md exists already, not overwritten.", "edit_failed"),
    ("list_folder", {"path": "nots"}, "Folder nots not found. Folders here: notes, src", "file_not_found"),
    ("open_document", {"path": "notes/big.md"}, "# Big\ntext\ntext\n(showing the first 200 of 5000 lines; output cut)", "output_limit"),
    ("find_in_files", {"text": "No such file"}, "a.py:3: print('No such file')", None),
    ("find_in_files", {"text": "zzz"}, "Nothing found.", None),
)
rows(
    "fresh-two-web", "openai", [],
    ("http_request", {"url": "http://a", "method": "GET"}, "HTTP/1.1 404 Not Found\n\n{\"message\": \"no such user\"}", "nonzero_exit"),
    ("http_request", {"url": "http://b", "method": "GET"}, "HTTP/1.1 200 OK\n\n{\"error\": \"none\"}", None),
    ("http_request", {"url": "http://c", "method": "GET"}, "HTTP/1.1 503 Service Unavailable\n\nbusy", "transport_error"),
    ("http_request", {"url": "http://d", "method": "FETCH"}, "method FETCH is not one of GET, POST", "invalid_args"),
    ("http_request", {"url": "http://e", "method": "GET"}, "Could not connect to e:80 (ECONNREFUSED)", "transport_error"),
    ("http_request", {"url": "http://f", "method": "GET"}, "No response within 20 seconds.", "timeout"),
    ("ask_user", {"question": "ok?"}, "No, that failed before.", None),
)
rows(
    "fresh-two-shells", "hermes", [tool("shell", "command:string")],
    ("shell", {"command": "cat brak.txt"}, "cat: brak.txt: Nie ma takiego pliku ani katalogu", "nonzero_exit"),
    ("shell", {"command": "npx tsc -p ."}, "src/a.ts:1:7 - error TS2322: Type 'string' is not assignable to type 'number'.\n\nFound 1 error in src/a.ts:1", None),
    ("shell", {"command": "bundle exec rake"}, "rake aborted!\nDon't know how to build task 'default'", "nonzero_exit"),
    ("shell", {"command": "terraform plan"}, "╷\n│ Error: No configuration files\n│ \n╵", "nonzero_exit"),
    ("shell", {"command": "python manage.py test"}, "Ran 3 tests in 0.1s\n\nFAILED (failures=1)", None),
    ("shell", {"command": "php a.php"}, "PHP Fatal error:  Uncaught Error: Call to undefined function f() in /w/a.php:3\nStack trace:\n#0 {main}\n  thrown in /w/a.php on line 3", "nonzero_exit"),
    ("shell", {"command": "systemctl status x"}, "Unit x.service could not be found.", "nonzero_exit"),
    ("shell", {"command": "yes | head -c 99999"}, "y\ny\ny\n[output exceeded 30000 chars and was cut]", "output_limit"),
    ("shell", {"command": "dmesg | tail -2"}, "[1.0] error: disk\n[1.1] I/O timed out", None),
)
