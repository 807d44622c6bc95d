"""Logs of invented harnesses, labelled by the table of kinds before the annotator had read them: read once, then used."""

from __future__ import annotations

from functools import partial

from rows import rows as told
from telling import tool

rows = partial(told, results="fresh")

rows(
    "fresh-tmux", "openai", [],
    ("type_keys", {"keystrokes": "make test\n"}, "Current terminal state:\nuser@box:~/p$ make test\nmake: *** No rule to make target 'test'.  Stop.\nuser@box:~/p$ ", "nonzero_exit"),
    ("type_keys", {"keystrokes": "ls\n"}, "Current terminal state:\nuser@box:~/p$ ls\nerror.log  src\nuser@box:~/p$ ", None),
    ("type_keys", {"keystrokes": "tail error.log\n"}, "Current terminal state:\nuser@box:~/p$ tail error.log\nbash: foo: command not found\nuser@box:~/p$ ", None),
    ("type_keys", {"keystrokes": "pyton3 -V\n"}, "Current terminal state:\nuser@box:~/p$ pyton3 -V\npyton3: command not found\nuser@box:~/p$ ", "command_not_found"),
    ("type_keys", {"keystrokes": "python3 a.py\n"}, "Current terminal state:\nuser@box:~/p$ python3 a.py\nTraceback (most recent call last):\n  File \"/home/user/p/a.py\", line 1, in <module>\n    import x\nModuleNotFoundError: No module named 'x'\nuser@box:~/p$ ", "traceback"),
)
rows(
    "fresh-boxed", "hermes", [tool("cmd", "command:string"), tool("peek", "path:string"), tool("swap", "path:string old:string new:string")],
    ("cmd", {"command": "go build ./..."}, "<result>\n<exit>1</exit>\n<out>\n./main.go:3:2: no required module provides package x\n</out>\n</result>", "nonzero_exit"),
    ("cmd", {"command": "ls"}, "<result>\n<exit>0</exit>\n<out>\nmain.go\n</out>\n</result>", None),
    ("peek", {"path": "mian.go"}, "<result status=\"error\">mian.go: no such file</result>", "file_not_found"),
    ("peek", {"path": "main.go"}, "<result status=\"ok\">package main\n// error: no such file\n</result>", None),
    ("swap", {"path": "main.go", "old": "foo", "new": "bar"}, "<result status=\"error\">text to replace occurs 3 times, give more context</result>", "edit_failed"),
    ("swap", {"path": "main.go", "old": "package main", "new": "package app"}, "<result status=\"ok\">1 replacement</result>", None),
)
rows(
    "fresh-cells", "openai", [],
    ("run_cell", {"code": "df.head()"}, "NameError: name 'df' is not defined", "traceback"),
    ("run_cell", {"code": "!pip install nopkg"}, "ERROR: Could not find a version that satisfies the requirement nopkg (from versions: none)\nERROR: No matching distribution found for nopkg", "nonzero_exit"),
    ("run_cell", {"code": "print(open('err.txt').read())"}, "ValueError: this is in the file\n", None),
    ("run_cell", {"code": "import time; time.sleep(999)"}, "Cell execution exceeded 120 s and was interrupted.", "timeout"),
    ("run_cell", {"code": "1/0"}, "```\n---------------------------------------------------------------------------\nZeroDivisionError                         Traceback (most recent call last)\n<ipython-input-3-9e1622b385b6> in <module>\n----> 1 1/0\n\nZeroDivisionError: division by zero\n```\n[kernel: python3]\n[elapsed: 0.02s]", "traceback"),
    ("run_cell", {"code": "2+2"}, "4\n[kernel: python3]\n[elapsed: 0.02s]", None),
    ("run_cell", {"code": "x = 'a' +"}, "  Cell In[5], line 1\n    x = 'a' +\n             ^\nSyntaxError: invalid syntax", "traceback"),
    ("run_cell", {"code": "print('x' * 10**6)"}, "xxxxxxxxxxxxxxxxxxx\n... output clipped, 999,000 more characters ...", "output_limit"),
)
rows(
    "fresh-rpc", "openai", [],
    ("fs.read", {"path": "/a/b.txt"}, '{"jsonrpc": "2.0", "id": 4, "error": {"code": -32000, "message": "ENOENT: no such file or directory, open \'/a/b.txt\'"}}', "file_not_found"),
    ("fs.read", {"path": "/a/c.txt"}, '{"jsonrpc": "2.0", "id": 5, "result": {"content": "error: none", "truncated": false}}', None),
    ("fs.read", {"path": "/a/d.txt"}, '{"jsonrpc": "2.0", "id": 6, "result": {"content": "aaaa", "truncated": true}}', "output_limit"),
    ("fs.raed", {"path": "/a/d.txt"}, '{"jsonrpc": "2.0", "id": 7, "error": {"code": -32601, "message": "Method not found"}}', "tool_not_found"),
    ("fs.read", {"file": "/a/d.txt"}, '{"jsonrpc": "2.0", "id": 8, "error": {"code": -32602, "message": "Invalid params"}}', "invalid_args"),
    ("proc.run", {"command": "false"}, '{"jsonrpc": "2.0", "id": 9, "result": {"exit_code": 1, "stdout": "", "stderr": ""}}', "nonzero_exit"),
    ("proc.run", {"command": "sleep 99"}, '{"jsonrpc": "2.0", "id": 10, "error": {"code": -32000, "message": "Process did not exit within 30000 ms"}}', "timeout"),
    ("proc.run", {"command": "echo hi"}, '{"jsonrpc": "2.0", "id": 11, "result": {"exit_code": 0, "stdout": "hi\\n", "stderr": "warning: error"}}', None),
    ("net.get", {"url": "https://x.example"}, '{"jsonrpc": "2.0", "id": 12, "error": {"code": -32003, "message": "getaddrinfo EAI_AGAIN x.example"}}', "transport_error"),
)
rows(
    "fresh-locales", "openai", [tool("bash", "command:string")],
    ("bash", {"command": "cat fehlt.txt"}, "cat: fehlt.txt: Datei oder Verzeichnis nicht gefunden", "nonzero_exit"),
    ("bash", {"command": "fooo"}, "bash: fooo: Befehl nicht gefunden.", "command_not_found"),
    ("bash", {"command": "cat log.txt"}, "Fehler: Datei oder Verzeichnis nicht gefunden\nweiter", None),
    ("bash", {"command": "lss"}, "bash: lss: orden no encontrada", "command_not_found"),
    ("bash", {"command": "ls /nada"}, "ls: no se puede acceder a '/nada': No existe el fichero o el directorio", "nonzero_exit"),
    ("bash", {"command": "cat 無.txt"}, "cat: 無.txt: そのようなファイルやディレクトリはありません", "nonzero_exit"),
    ("bash", {"command": "gti status"}, "bash: gti: コマンドが見つかりません", "command_not_found"),
    ("bash", {"command": "cat /etc/shadow"}, "cat: /etc/shadow: Permission non accordée", "nonzero_exit"),
    ("bash", {"command": "cat sem.txt"}, "cat: sem.txt: Arquivo ou diretório inexistente", "nonzero_exit"),
    ("bash", {"command": "./run.sh"}, "bash: ./run.sh: 权限不够", "nonzero_exit"),
)
rows(
    "fresh-powershell", "react", [],
    ("pwsh", {"command": "Get-Item nope.txt"}, "Get-Item: Cannot find path 'C:\\w\\nope.txt' because it does not exist.", "nonzero_exit"),
    ("pwsh", {"command": "gci"}, "\r\n    Directory: C:\\w\r\n\r\nMode  Length Name\r\n-a---     12 error.txt\r\n", None),
    ("pwsh", {"command": "npmm i"}, "npmm: The term 'npmm' is not recognized as a name of a cmdlet, function, script file, or executable program.\r\nCheck the spelling of the name, or if a path was included, verify that the path is correct and try again.", "command_not_found"),
    ("pwsh", {"command": "Select-String fail a.log"}, "\r\na.log:3:fail: The term 'x' is not recognized as a name of a cmdlet\r\n", None),
    ("pwsh", {"command": "dotnet build"}, "C:\\w\\a.cs(3,5): error CS1002: ; expected [C:\\w\\w.csproj]\r\n\r\nBuild FAILED.\r\n    0 Warning(s)\r\n    1 Error(s)", "nonzero_exit"),
)
rows(
    "fresh-limits", "openai", [],
    ("web_search", {"q": "a"}, "1. a page about rate limits", None),
    ("web_search", {"q": "b"}, "You have used all 3 of your web_search calls for this task.", "budget"),
    ("browse", {"url": "https://x"}, "Max tool calls (25) reached; wrap up and answer.", "budget"),
    ("browse", {"url": "https://y"}, "Tool error: HTTP 429: slow down", "transport_error"),
    ("browse", {"url": "https://z"}, "Tool error: page load timed out (30000 ms)", "timeout"),
    ("browse", {"url": "https://w"}, "Tool error: net::ERR_CERT_DATE_INVALID at https://w", "transport_error"),
    ("browse", {"url": "https://v"}, "Tool error: HTTP 403 Forbidden", "nonzero_exit"),
    ("browse", {"url": "https://u"}, "# The timeout guide\nHow requests time out.\n\n[Page truncated at 5000 characters]", "output_limit"),
    ("calc", {"e": "1+"}, "Token budget exhausted.", "budget"),
)
rows(
    "fresh-wraps", "hermes", [],
    ("read_file", {"path": "src/x.rs"}, "Error in tool read_file: [Errno 2] No such file or directory: 'src/x.rs'", "file_not_found"),
    ("write_file", {"path": "README.md", "content": "x"}, "Refusing to overwrite README.md: it exists. Pass overwrite=true.", "edit_failed"),
    ("edit_file", {"path": "a.py", "find": "x", "replace": "y"}, "ToolError(\"edit_file: could not locate the snippet in a.py\")", "edit_failed"),
    ("edit_file", {"path": "a.py", "find": "x"}, "ToolError(\"edit_file: missing argument 'replace'\")", "invalid_args"),
    ("list_dir", {"path": "/nope"}, "ls failed: /nope is not a directory or does not exist", "file_not_found"),
    ("lookup_user", {"id": "9"}, "Tool lookup_user crashed:\nTraceback (most recent call last):\n  File \"/srv/t.py\", line 3, in f\n    return d[k]\nKeyError: '9'", "traceback"),
    ("lookup_user", {"id": "8"}, "No user with id 8", "nonzero_exit"),
    ("lookup_usr", {"id": "8"}, "lookup_usr: tool is not enabled for this session", "tool_not_found"),
    ("run_sql", {"sql": "select 1 from t"}, "ERROR:  relation \"t\" does not exist\nLINE 1: select 1 from t", "nonzero_exit"),
    ("read_file", {"path": "big.log"}, "line 1 error\nline 2 error\n--- 120 more lines not shown ---", "output_limit"),
    ("read_file", {"path": "big.log"}, "Traceback (most recent call last):\n  File \"x\", line 1, in y\nKeyError: 'z'", None),
)
rows(
    "fresh-footers", "openai", [],
    ("exec", {"cmd": "cat a.txt"}, "cat: a.txt: No such file or directory\n[cwd: /w]\n[tokens left: 9000]", "nonzero_exit"),
    ("exec", {"cmd": "cat b.txt"}, "hello\n[cwd: /w]\n[tokens left: 8990]", None),
    ("exec", {"cmd": "npm test"}, "> jest\n\nTests: 1 failed\n[cwd: /w]\n[tokens left: 8980]", None),
    ("exec", {"cmd": "node x.js"}, "node:internal/modules/cjs/loader:1080\n  throw err;\n  ^\n\nError: Cannot find module '/w/x.js'\n    at Module._load (node:internal/modules/cjs/loader:1)\n\nNode.js v20.1.0\n[cwd: /w]\n[tokens left: 8970]", "nonzero_exit"),
    ("exec", {"cmd": "python3 -c 'import y'"}, "Traceback (most recent call last):\n  File \"<string>\", line 1, in <module>\nModuleNotFoundError: No module named 'y'\n[cwd: /w]\n[tokens left: 8960]", "traceback"),
    ("exec", {"cmd": "./watch"}, "tick\ntick\n[stopped: wall clock limit of 60 s]\n[cwd: /w]\n[tokens left: 8950]", "timeout"),
    ("open_file", {"path": "zz.md"}, "zz.md: not found\n[cwd: /w]\n[tokens left: 8940]", "file_not_found"),
)
