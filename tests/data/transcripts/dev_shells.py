"""Shells and interpreters of harnesses that no rule was made for, labelled before the annotator had read them."""

from __future__ import annotations

import json

from rows import rows

TB = 'Traceback (most recent call last):\n  File "/w/%s", line %d, in <module>\n    %s\n%s'

rows(
    "bare-bash", "openai", [],
    ("bash", {"command": "make -j4"}, "gcc -c a.c -o a.o\na.c:3:10: fatal error: zlib.h: No such file or directory\n    3 | #include <zlib.h>\n      |          ^~~~~~~~\ncompilation terminated.\nmake: *** [Makefile:4: a.o] Error 1", "nonzero_exit"),
    ("bash", {"command": "cat build.log"}, "gcc -c a.c -o a.o\nmake: *** [Makefile:4: a.o] Error 1", None),
    ("bash", {"command": "gcc -o t t.c"}, "t.c: In function 'main':\nt.c:2:3: error: 'x' undeclared (first use in this function)\n    2 |   x = 1;\n      |   ^\nt.c:2:3: note: each undeclared identifier is reported only once for each function it appears in", "nonzero_exit"),
    ("bash", {"command": "cargo build"}, "   Compiling a v0.1.0 (/w)\nerror[E0425]: cannot find value `y` in this scope\n --> src/main.rs:2:20\n  |\n2 |     println!(\"{}\", y);\n  |                    ^ not found in this scope\n\nFor more information about this error, try `rustc --explain E0425`.\nerror: could not compile `a` (bin \"a\") due to 1 previous error", "nonzero_exit"),
    ("bash", {"command": "cargo build"}, "   Compiling a v0.1.0 (/w)\nwarning: unused variable: `error`\n --> src/main.rs:2:9\n\nwarning: `a` (bin \"a\") generated 1 warning\n    Finished `dev` profile [unoptimized + debuginfo] target(s) in 0.21s", None),
    ("bash", {"command": "pip install requets==99"}, "ERROR: Could not find a version that satisfies the requirement requets==99 (from versions: none)\nERROR: No matching distribution found for requets==99\n\n[notice] A new release of pip is available: 23.0 -> 24.0\n[notice] To update, run: pip install --upgrade pip", "nonzero_exit"),
    ("bash", {"command": "node server.js"}, "node:internal/modules/cjs/loader:1080\n  throw err;\n  ^\n\nError: Cannot find module 'express'\nRequire stack:\n- /w/server.js\n    at Module._resolveFilename (node:internal/modules/cjs/loader:1077:15)\n    at node:internal/main/run_main_module:28:49 {\n  code: 'MODULE_NOT_FOUND',\n  requireStack: [ '/w/server.js' ]\n}\n\nNode.js v18.17.0", "nonzero_exit"),
    ("bash", {"command": "node -e 'console.log(new Error(\"kept\").message)'"}, "kept", None),
    ("bash", {"command": "javac A.java && java A"}, "A.java:3: error: ';' expected\n    int x = 1\n             ^\n1 error", "nonzero_exit"),
    ("bash", {"command": "java A"}, "Exception in thread \"main\" java.lang.NullPointerException: x is null\n\tat A.main(A.java:4)", "nonzero_exit"),
    ("bash", {"command": "go run ."}, "panic: runtime error: index out of range [3] with length 3\n\ngoroutine 1 [running]:\nmain.main()\n\t/w/main.go:6 +0x1d\nexit status 2", "nonzero_exit"),
    ("bash", {"command": "./run.sh"}, "./run.sh: line 4: syntax error near unexpected token `fi'\n./run.sh: line 4: `fi'", "nonzero_exit"),
    ("bash", {"command": "./deploy.sh"}, "bash: ./deploy.sh: Permission denied", "nonzero_exit"),
    ("bash", {"command": "./a.out"}, "Segmentation fault (core dumped)", "nonzero_exit"),
)
rows(
    "bare-terminal-two", "openai", [],
    ("run_terminal_cmd", {"command": "git merge feature", "is_background": False}, "Auto-merging a.py\nCONFLICT (content): Merge conflict in a.py\nAutomatic merge failed; fix conflicts and then commit the result.", "nonzero_exit"),
    ("run_terminal_cmd", {"command": "git push", "is_background": False}, "To /srv/r.git\n ! [rejected]        main -> main (fetch first)\nerror: failed to push some refs to '/srv/r.git'\nhint: Updates were rejected because the remote contains work that you do\nhint: not have locally.", "nonzero_exit"),
    ("run_terminal_cmd", {"command": "git log --oneline -3", "is_background": False}, "3b1 fix: error: failed to push\n9aa fatal: crash on start\n01c init", None),
    ("run_terminal_cmd", {"command": "mypy src", "is_background": False}, "src/a.py:3: error: Incompatible return value type (got \"int\", expected \"str\")  [return-value]\nFound 1 error in 1 file (checked 4 source files)", None),
    ("run_terminal_cmd", {"command": "ruff check .", "is_background": False}, "a.py:1:8: F401 [*] `os` imported but unused\nFound 1 error.\n[*] 1 fixable with the `--fix` option.", None),
    ("run_terminal_cmd", {"command": "npm run biuld", "is_background": False}, "npm error Missing script: \"biuld\"\nnpm error\nnpm error Did you mean this?\nnpm error   npm run build # run the \"build\" package script\nnpm error\nnpm error A complete log of this run can be found in: /root/.npm/_logs/x-debug-0.log", "nonzero_exit"),
    ("run_terminal_cmd", {"command": "tsc --version", "is_background": False}, "sh: 1: tsc: not found", "command_not_found"),
    ("run_terminal_cmd", {"command": "ps aux | grep serve", "is_background": False}, "root 3 0.0 serve --on-error=restart", None),
    ("run_terminal_cmd", {"command": "python -m flask --app x run", "is_background": False}, "Usage: python -m flask run [OPTIONS]\nTry 'python -m flask run --help' for help.\n\nError: Could not import 'x'.", "nonzero_exit"),
    ("run_terminal_cmd", {"command": "python -m blak .", "is_background": False}, "/usr/bin/python: No module named blak", "nonzero_exit"),
    ("run_terminal_cmd", {"command": "python -c 'import nump'", "is_background": False}, TB % ("<string>", 1, "import nump", "ModuleNotFoundError: No module named 'nump'"), "traceback"),
    ("run_terminal_cmd", {"command": "sqlite3 a.db 'select * from usr'", "is_background": False}, "Error: in prepare, no such table: usr", "nonzero_exit"),
    ("run_terminal_cmd", {"command": "curl -sS http://localhost:9/x", "is_background": False}, "curl: (7) Failed to connect to localhost port 9 after 0 ms: Couldn't connect to server", "nonzero_exit"),
    ("run_terminal_cmd", {"command": "apt-get install -y foo-bar", "is_background": False}, "Reading package lists... Done\nBuilding dependency tree... Done\nE: Unable to locate package foo-bar", "nonzero_exit"),
    ("run_terminal_cmd", {"command": "tail -2 /var/log/app.log", "is_background": False}, "INFO start\nE: Unable to locate package foo-bar", None),
)
rows(
    "terminal-screen", "openai", [],
    ("execute", {"keystrokes": "ls\n"}, "root@3fa:/app# ls\nREADME  data  error.log\nroot@3fa:/app# ", None),
    ("execute", {"keystrokes": "ffprobe a.mp4\n"}, "root@3fa:/app# ffprobe a.mp4\nbash: ffprobe: command not found\nroot@3fa:/app# ", "command_not_found"),
    ("execute", {"keystrokes": "python3 a.py\n"}, "root@3fa:/app# python3 a.py\n" + TB % ("a.py", 3, "f()", "KeyError: 'x'") + "\nroot@3fa:/app# ", "traceback"),
    ("execute", {"keystrokes": "cat error.log\n"}, "root@3fa:/app# cat error.log\nbash: ffprobe: command not found\nroot@3fa:/app# ", None),
    ("execute", {"keystrokes": "mkdir data\n"}, "root@3fa:/app# mkdir data\nmkdir: cannot create directory 'data': File exists\nroot@3fa:/app# ", "nonzero_exit"),
)
rows(
    "unified-exec", "openai", [],
    ("exec_command", {"cmd": "ls"}, "Chunk ID: 4f2a\nWall time: 0.0512 seconds\nProcess exited with code 0\nOriginal token count: 3\nOutput:\na.py\n", None),
    ("exec_command", {"cmd": "rg -n 'needle' src"}, "Chunk ID: 91bc\nWall time: 0.0310 seconds\nProcess exited with code 1\nOriginal token count: 0\nOutput:\n", "nonzero_exit"),
    ("exec_command", {"cmd": "cat old.txt"}, "Chunk ID: 77aa\nWall time: 0.0101 seconds\nProcess exited with code 0\nOriginal token count: 12\nOutput:\nProcess exited with code 1\nexec_command failed\n", None),
    ("exec_command", {"cmd": "jqq . a.json"}, "Chunk ID: 10cd\nWall time: 0.0099 seconds\nProcess exited with code 127\nOriginal token count: 9\nOutput:\n/bin/bash: line 1: jqq: command not found\n", "command_not_found"),
    ("exec_command", {"command": "ls"}, "failed to parse function arguments: missing field `cmd` at line 1 column 16", "invalid_args"),
    ("apply_patch", {"input": "*** Begin Patch\n*** Update File: a.py\n-x\n+y\n*** End Patch"}, "apply_patch verification failed: Failed to find expected lines in /w/a.py:\nx", "edit_failed"),
    ("apply_patch", {"input": "*** Begin Patch\n*** Update File: a.py\n-xx\n+y\n*** End Patch"}, "Success. Updated the following files:\nM a.py\n", None),
    ("viewimage", {"path": "a.png"}, "unsupported call: viewimage", "tool_not_found"),
)
rows(
    "wall-time", "openai", [],
    ("shell", {"command": ["bash", "-lc", "pytest -q"]}, "Exit code: 1\nWall time: 2.1 seconds\nOutput:\nF\nFAILED a.py::t - AssertionError\n1 failed in 1.9s\n", "nonzero_exit"),
    ("shell", {"command": ["bash", "-lc", "git status --short"]}, "Exit code: 0\nWall time: 0.1 seconds\nOutput:\n M a.py\n", None),
    ("shell", {"command": ["bash", "-lc", "cat big.txt"]}, "Exit code: 0\nWall time: 0.1 seconds\nTotal output lines: 9000\nOutput:\n" + "some words of text\n" * 100 + "\n[... omitted 8800 of 9000 lines ...]\n\n" + "some words of text\n" * 100, "output_limit"),
    ("shell", {"command": ["bash", "-lc", "python a.py"]}, "Exit code: 1\nWall time: 0.1 seconds\nOutput:\n" + TB % ("a.py", 1, "1/0", "ZeroDivisionError: division by zero") + "\n", "traceback"),
    ("shell", {"command": ["bash", "-lc", "sleep 99"]}, "Exit code: 124\nWall time: 10 seconds\nOutput:\ncommand timed out after 10000 milliseconds\n", "timeout"),
)
rows(
    "xml-shell", "hermes", [],
    ("run", {"command": "ls"}, "<stdout>\na.py\n</stdout>\n<stderr></stderr>\n<exit_code>0</exit_code>", None),
    ("run", {"command": "ls x"}, "<stdout></stdout>\n<stderr>\nls: cannot access 'x': No such file or directory\n</stderr>\n<exit_code>2</exit_code>", "nonzero_exit"),
    ("run", {"command": "cat t.xml"}, "<stdout>\n<exit_code>9</exit_code>\n</stdout>\n<stderr></stderr>\n<exit_code>0</exit_code>", None),
    ("run", {"command": "hx a"}, "<stdout></stdout>\n<stderr>\nsh: 1: hx: not found\n</stderr>\n<exit_code>127</exit_code>", "command_not_found"),
    ("run", {"command": "yes"}, "<stdout>\ny\ny\n</stdout>\n<stderr></stderr>\n<error>Command timed out after 20 seconds</error>", "timeout"),
)
rows(
    "process-exited", "openai", [],
    ("execute_shell", {"command": "uname"}, "Linux\n\n[Process exited with code 0]", None),
    ("execute_shell", {"command": "false"}, "[Process exited with code 1]", "nonzero_exit"),
    ("execute_shell", {"command": "rm gone"}, "rm: cannot remove 'gone': No such file or directory\n\n[Process exited with code 1]", "nonzero_exit"),
    ("execute_shell", {"command": "cat log"}, "[Process exited with code 3]\n\n[Process exited with code 0]", None),
    ("execute_shell", {"command": "make serve"}, "listening on 8080\n\n[Process killed: exceeded the time limit of 60s]", "timeout"),
)
rows(
    "only-failures-say-so", "openai", [],
    ("Bash", {"command": "ls"}, "a.py\nb.py", None),
    ("Bash", {"command": "diff a.py b.py"}, "1c1\n< x\n---\n> y\n\nCommand exited with code 1", "nonzero_exit"),
    ("Bash", {"command": "cat notes.txt"}, "It said:\nCommand exited with code 1", None),
    ("Bash", {"command": "npm ci"}, "npm warn deprecated glob@7\nadded 200 packages in 4s", None),
    ("Bash", {"command": "terraform plan"}, "Error: No configuration files\n\nPlan requires configuration to be present.\n\n(exit code 1)", "nonzero_exit"),
    ("Bash", {"command": "terraform init"}, "Terraform has been successfully initialized!", None),
    ("Bash", {"command": "sleep 1000"}, "bash tool terminated command after exceeding timeout 120000 ms", "timeout"),
    ("Bash", {"command": "find / -name '*.conf'"}, "/etc/a.conf\n" * 300 + "\n\n... [output truncated, 91222 characters omitted]", "output_limit"),
)
rows(
    "command-failed", "react", [],
    ("terminal", {"command": "ls src"}, "main.py\nerrors.py", None),
    ("terminal", {"command": "ls srv"}, "Command failed with exit code 2\nstderr: ls: cannot access 'srv': No such file or directory", "nonzero_exit"),
    ("terminal", {"command": "cat src/errors.py"}, "class CommandFailed(Exception):\n    'Command failed with exit code 2'", None),
    ("terminal", {"command": "pyhton src/main.py"}, "Command failed with exit code 127\nstderr: /bin/sh: pyhton: command not found", "command_not_found"),
    ("terminal", {"command": "python src/main.py"}, "Command failed with exit code 1\nstderr: " + TB % ("src/main.py", 1, "main()", "NameError: name 'main' is not defined"), "traceback"),
    ("terminal", {"command": "python src/main.py"}, "ok", None),
)
rows(
    "notebook-two", "openai", [],
    ("ipython", {"code": "import polars"}, "ModuleNotFoundError                       Traceback (most recent call last)\nCell In[1], line 1\n----> 1 import polars\n\nModuleNotFoundError: No module named 'polars'", "traceback"),
    ("ipython", {"code": "try:\n    1/0\nexcept Exception as e:\n    print('Error:', e)"}, "Error: division by zero", None),
    ("ipython", {"code": "print(open('log.txt').read())"}, "Traceback (most recent call last):\n  File \"x.py\", line 1, in <module>\nValueError: told yesterday\n[end of log]", None),
    ("ipython", {"code": "df['a'"}, "  Cell In[4], line 1\n    df['a'\n          ^\nSyntaxError: incomplete input\n", "traceback"),
    ("ipython", {"code": "df.shape"}, "(3, 2)", None),
)
rows(
    "repl-json", "openai", [],
    ("python", {"code": "print(2)"}, json.dumps({"stdout": "2\n", "stderr": "", "error": None}), None),
    ("python", {"code": "x"}, json.dumps({"stdout": "", "stderr": TB % ("<cell>", 1, "x", "NameError: name 'x' is not defined"), "error": "NameError: name 'x' is not defined"}), "traceback"),
    ("python", {"code": "print('{\"error\": 1}')"}, json.dumps({"stdout": "{\"error\": 1}\n", "stderr": "", "error": None}), None),
    ("python", {"code": "while 1: pass"}, json.dumps({"stdout": "", "stderr": "", "error": "Execution timed out after 30s"}), "timeout"),
)
