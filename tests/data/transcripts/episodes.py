"""Episodes of coding and other agents, each call with its label. See README.md for how they are labelled."""

from __future__ import annotations

from telling import Call, Story, do, tool

CODING = [
    tool("bash", "command:string", "timeout_s:number"),
    tool("read_file", "path:string", "start_line:integer end_line:integer"),
    tool("write_file", "path:string content:string"),
    tool("edit_file", "path:string old:string new:string"),
    tool("search", "pattern:string", "path:string"),
    tool("list_files", "", "path:string"),
    tool("run_tests", "", "selector:string"),
    tool("submit", "", "summary:string"),
]


def bash(command: str, body: str = "", status: str = "ok", kind: str | None = None, **more: object) -> Call:
    return Call("bash", {"command": command}, body, status, kind, **more)  # type: ignore[arg-type]


def read(path: str, body: str = "", status: str = "ok", kind: str | None = None, **more: object) -> Call:
    return Call("read_file", {"path": path}, body, status, kind, **more)  # type: ignore[arg-type]


def edit(path: str, old: str, new: str, body: str = "", status: str = "ok", kind: str | None = None, **more: object) -> Call:
    return Call("edit_file", {"path": path, "old": old, "new": new}, body, status, kind, **more)  # type: ignore[arg-type]


def submit(summary: str = "done") -> Call:
    return Call("submit", {"summary": summary}, "submitted")


CRASH = """Traceback (most recent call last):
  File "/workspace/repro.py", line 4, in <module>
    print(total([1, None]))
          ^^^^^^^^^^^^^^^^
  File "/workspace/src/tally/core.py", line 9, in total
    result += value
TypeError: unsupported operand type(s) for +=: 'int' and 'NoneType'"""

FAILING = """F.                                                                       [100%]
=================================== FAILURES ===================================
__________________________________ test_total __________________________________

    def test_total():
>       assert total([1, 2]) == 3
E       NotImplementedError

src/tally/core.py:8: NotImplementedError
=========================== short test summary info ============================
FAILED tests/test_core.py::test_total - NotImplementedError
1 failed, 1 passed"""

STORIES: list[Story] = []


def story(name: str, prompt: str, tools: list[dict[str, object]], *steps: object, **more: object) -> None:
    STORIES.append(Story(name, prompt, tools, list(steps), **more))  # type: ignore[arg-type]


story(
    "tally",
    "Write tally.total again: it adds up the values.",
    CODING,
    do("Let me look around.", Call("list_files", {}, "pyproject.toml\nsrc/tally/__init__.py\nsrc/tally/core.py\ntests/test_core.py")),
    do(
        "Read the module and its tests.",
        read("src/tally/core.py", '1\t"""Counting."""\n2\t\n3\t\n4\tdef total(values):\n5\t    raise NotImplementedError'),
        read(
            "tests/test_tally.py", status="error file_not_found: no such file: tests/test_tally.py", kind="file_not_found",
            plain="Error: no such file: tests/test_tally.py", plain_kind="file_not_found",
        ),
    ),
    do("The tests are in another file.", read("tests/test_core.py", "1\tfrom tally import total\n2\t\n3\tdef test_total():\n4\t    assert total([1, 2]) == 3")),
    do("See what fails now.", Call("run_tests", {}, FAILING, "exit 1")),
    do(
        "Fill it in.",
        edit(
            "src/tally/core.py", "raise NotImplemented", "return sum(values)",
            status="error edit_failed: old is not in src/tally/core.py; the nearest line is 5: '    raise NotImplementedError'", kind="edit_failed",
            plain="Error: old is not in src/tally/core.py; the nearest line is 5: '    raise NotImplementedError'", plain_kind="edit_failed",
        ),
    ),
    do("Use the exact line.", edit("src/tally/core.py", "    raise NotImplementedError", "    return sum(values)", "edited src/tally/core.py at line 5")),
    do("Run the tests again.", Call("run_tests", {"selector": "tests/test_core.py"}, "..                          [100%]\n2 passed")),
    do("All pass.", submit("total is back")),
)

story(
    "grepping",
    "Users report 'Tool not found' in the log viewer. Find where that text is made.",
    CODING,
    do("Search for the text.", bash('grep -rn "Tool not found" src', 'src/viewer/errors.py:12:    return f"Error: Tool not found: {name}"\nsrc/viewer/errors.py:40:# Tool not found')),
    do("And the other one.", bash('grep -rn "command not found" .', "./docs/faq.md:31:bash: pip: command not found\n./install.log:2:bash: line 1: npm: command not found")),
    do("Is it raised anywhere?", bash("grep -rn ToolMissing src", "", "exit 1", "nonzero_exit")),
    do("Look at the log itself.", bash("cat install.log", "bash: line 1: npm: command not found\nError: Tool not found: npm\nTraceback (most recent call last):\n  File \"x.py\", line 1, in <module>\nValueError: no npm")),
    do("Its last lines.", bash("tail -n 3 install.log", "Traceback (most recent call last):\n  File \"x.py\", line 1, in <module>\nValueError: no npm")),
    do("Print what the viewer should print.", bash("echo 'Error: Tool not found: npm'; echo 'exit 1'; echo 'timeout 30s'", "Error: Tool not found: npm\nexit 1\ntimeout 30s")),
    do("Use the search tool.", Call("search", {"pattern": "Traceback"}, "install.log:3:Traceback (most recent call last):\ntests/data/crash.txt:1:Traceback (most recent call last):")),
    do(
        "Open the fixture.",
        read("tests/data/crash.txt", "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nZeroDivisionError: division by zero"),
        read("tests/data/missing.txt", "Error: File not found: config.yml\nplease create it"),
    ),
    do("Found it: errors.py line 12.", submit("errors.py:12")),
)

story(
    "crash",
    "total([1, None]) should skip None. Reproduce it first.",
    CODING,
    do("A script to reproduce.", Call("write_file", {"path": "repro.py", "content": "from tally import total\n\nprint('start')\nprint(total([1, None]))\n"}, "wrote 60 bytes to repro.py")),
    do("Run it.", bash("python repro.py", CRASH, "exit 1", "traceback", plain_kind="traceback")),
    do("With output before it.", bash("python -u repro.py --verbose", "start\nverbose: on\n" + CRASH, "exit 1", "traceback", plain_kind="traceback")),
    do(
        "python3.9 too?",
        bash("python3.9 repro.py", "bash: line 1: python3.9: command not found", "exit 127", "command_not_found", plain_kind="command_not_found"),
        bash("ls /usr/bin | grep -c python", "4"),
    ),
    do("Patch it.", edit("src/tally/core.py", "result += value", "result += value or 0", "edited src/tally/core.py at line 9")),
    do("Again.", bash("python repro.py", "start\n1")),
    do("A program that handles its own errors.", bash("python -m tally.selftest", "checking None ... ok\nERROR:tally:expected failure\nTraceback (most recent call last):\n  File \"/workspace/src/tally/selftest.py\", line 8, in main\n    total(['a'])\nTypeError: expected\nselftest passed")),
    do("Tests print errors and pass.", Call("run_tests", {}, "tests/test_core.py Error: this is printed by a passing test\nTraceback (most recent call last): not really\n.. [100%]\n2 passed")),
    do("Done.", submit()),
)

story(
    "shapes",
    "Make a folder `out` and put a file into it.",
    CODING,
    do(
        "I will use mkdir.",
        Call("mkdir", {"path": "out"}, status="error tool_not_found: there is no tool 'mkdir'. The tools are: bash, read_file", kind="tool_not_found",
             plain="Error: unknown tool 'mkdir'", plain_kind="tool_not_found"),
    ),
    do(
        "With bash then.",
        Call("bash", {"cmd": "mkdir out"}, status="error invalid_args: bash has no argument 'cmd'; did you mean 'command'?", kind="invalid_args",
             plain="Error: bash got an unexpected argument 'cmd'", plain_kind="invalid_args"),
    ),
    do("The argument is command.", bash("mkdir out")),
    do(
        "Write the file.",
        Call("write_file", {"path": "out/a.txt"}, status="error invalid_args: write_file needs the argument 'content' (string)", kind="invalid_args",
             plain="Error: missing argument 'content'", plain_kind="invalid_args"),
        Call("write_file", {"path": "out/b.txt", "content": "b"}, "wrote 1 bytes to out/b.txt"),
    ),
    do(
        "Again, with quotes.",
        Call("write_file", '{"path": "out/a.txt", "content": "say "hi""}', status="error malformed_call: arguments are not valid JSON: Expecting ',' delimiter at line 1 column 39",
             kind="malformed_call", plain="Error: could not parse the arguments as JSON", plain_kind="malformed_call"),
    ),
    do("Escaped.", Call("write_file", {"path": "out/a.txt", "content": 'say "hi"'}, "wrote 8 bytes to out/a.txt")),
    do(
        "Look at lines.",
        Call("read_file", {"path": "out/a.txt", "start_line": "one"}, status='error invalid_args: read_file: start_line must be of type integer, got "one"', kind="invalid_args",
             plain="Error: start_line is not an integer", plain_kind="invalid_args"),
    ),
    do("All of it.", read("out/a.txt", '1\tsay "hi"')),
    do("Submit.", submit()),
)

story(
    "waiting",
    "The worker hangs. Find out why.",
    CODING,
    do("Start it.", bash("python worker.py", "listening\n", "timeout 30s", "timeout", plain="Error: command timed out after 30 seconds", plain_kind="timeout")),
    do("With a limit of its own.", bash("timeout 5 python worker.py", "listening", "exit 124", "nonzero_exit")),
    do("What does its log say?", bash("cat worker.log", "Command timed out after 30 seconds\nError: connection timed out\nretry 1\nretry 2")),
    do("Who waits?", bash("grep -n timeout worker.py", "14:    sock.settimeout(None)  # timeout 30s is too short\n22:except TimeoutError:")),
    do("Set one.", bash("sed -i 's/settimeout(None)/settimeout(5)/' worker.py")),
    do("Now it ends.", bash("python worker.py", "listening\nError: nobody connected within 5 s\nstopped", "exit 3", "nonzero_exit")),
    do("That is its documented exit status; check it.", bash("python worker.py; test $? -eq 3", "listening\nError: nobody connected within 5 s\nstopped")),
    do("Tests hang too?", Call("run_tests", {}, "collected 4 items\n..", "timeout 120s", "timeout", plain="Error: run_tests timed out after 120 seconds", plain_kind="timeout")),
    do("One of them.", Call("run_tests", {"selector": "tests/test_worker.py::test_stop"}, "1 passed")),
    do("Good.", submit("the socket had no timeout")),
)

story(
    "shell",
    "Clean the build folder and make a release archive.",
    CODING,
    do("Look.", bash("ls build dist", "ls: cannot access 'dist': No such file or directory\nbuild:\nlib", "exit 2", "nonzero_exit")),
    do("Read the notes.", bash("cat RELEASE.md", "cat: RELEASE.md: No such file or directory", "exit 1", "nonzero_exit", plain_kind="nonzero_exit")),
    do("Another name?", bash("ls *.md; ls docs", "CHANGES.md\nREADME.md\nreleasing.md")),
    do("Make it.", bash("make release", "make: *** No rule to make target 'release'.  Stop.", "exit 2", "nonzero_exit", plain_kind="nonzero_exit")),
    do("By hand.", bash("tar czf dist/x.tgz src", "tar (child): dist/x.tgz: Cannot open: No such file or directory\ntar (child): Error is not recoverable: exiting now", "exit 2", "nonzero_exit", plain_kind="nonzero_exit")),
    do("The folder first.", bash("mkdir -p dist && tar czf dist/x.tgz src && ls dist", "x.tgz")),
    do("Sign it.", bash("gpg --sign dist/x.tgz", "bash: line 1: gpg: command not found", "exit 127", "command_not_found", plain_kind="command_not_found")),
    do("Checksums instead.", bash("cd dist && sha256sum x.tgz > SHA256SUMS && cat SHA256SUMS", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08  x.tgz")),
    do("Is the tree clean?", bash("git diff --exit-code", "diff --git a/README.md b/README.md\n-old\n+Error: new", "exit 1", "nonzero_exit")),
    do("It is released.", submit()),
)

story(
    "pytest-in-bash",
    "Fix the parser's tests.",
    CODING,
    do("Run them in the shell.", bash("python -m pytest -q tests/test_parser.py", FAILING, "exit 1", "nonzero_exit")),
    do("Only collect.", bash("python -m pytest --collect-only -q", "tests/test_parser.py::test_a\ntests/test_parser.py::test_error_message\n\n2 tests collected")),
    do("Fix it.", edit("src/parser.py", "pass", "return 1", status="error edit_failed: old occurs 3 times in src/parser.py (lines 4, 9, 30); add lines around it to make it unique", kind="edit_failed",
                       plain="Error: old occurs 3 times in src/parser.py; make it unique", plain_kind="edit_failed")),
    do("Unique now.", edit("src/parser.py", "def parse(text):\n    pass", "def parse(text):\n    return 1", "edited src/parser.py at line 3")),
    do("Again.", bash("python -m pytest -q tests/test_parser.py", "..                       [100%]\n2 passed in 0.02s"), bash("git status --short", " M src/parser.py")),
    do("The linter.", bash("ruff check src", "src/parser.py:9:5: E722 Do not use bare except\nFound 1 error.", "exit 1", "nonzero_exit")),
    do("Types.", bash("mypy src", "src/parser.py:3: error: Function is missing a type annotation\nFound 1 error in 1 file", "exit 1", "nonzero_exit"), bash("true")),
    do("Unit tests of the old kind.", Call("run_tests", {"selector": "tests/gone.py"}, "ERROR: file or directory not found: tests/gone.py", "exit 4", "nonzero_exit")),
    do("Enough.", submit()),
)

story(
    "json-files",
    "The API returns an error object. Where does it come from?",
    CODING,
    do("A look at the fixtures.", bash("ls fixtures", "error.json\nok.json\nresult.json")),
    do("The error.", bash("cat fixtures/result.json", '{"error": "quota exceeded", "exit_code": 1}')),
    do("With the reader.", read("fixtures/error.json", '1\t{"error": "not found", "success": false}')),
    do("Pretty.", bash("python -m json.tool fixtures/ok.json", '{\n    "status": "error",\n    "returncode": 7\n}')),
    do("Broken one.", bash("python -m json.tool fixtures/broken.json", "Expecting value: line 1 column 1 (char 0)", "exit 1", "nonzero_exit")),
    do("Extract.", bash("jq -r .error fixtures/result.json", "quota exceeded")),
    do("Two at once.", bash("wc -c fixtures/ok.json", "42 fixtures/ok.json"), bash("wc -c fixtures/no.json", "wc: fixtures/no.json: No such file or directory", "exit 1", "nonzero_exit", plain_kind="nonzero_exit")),
    do("Now the code.", Call("search", {"pattern": "quota exceeded", "path": "src"}, "src/api.py:77:    raise Quota('quota exceeded')")),
    do("Its tests.", Call("run_tests", {"selector": "tests/test_api.py"}, FAILING.replace("tally/core", "api"), "exit 1")),
    do("Answered.", submit("src/api.py:77")),
)

SUPPORT = [
    tool("find_customer", "email:string"),
    tool("get_order", "order_id:string"),
    tool("refund_order", "order_id:string amount:number", "reason:string"),
    tool("send_message", "to:string text:string"),
]

story(
    "support",
    "Refund order A-17 of eva@example.org (12.50) and tell her.",
    SUPPORT,
    do("Find her.", Call("find_customer", {"email": "eva@example.org"}, "Eva Meier, customer 88, orders: A-17, A-21")),
    do("Her order.", Call("get_order", {"id": "A-17"}, status="error invalid_args: get_order has no argument 'id'; it takes order_id", kind="invalid_args",
                          plain="Error: get_order() got an unexpected keyword argument 'id'", plain_kind="invalid_args")),
    do("Rightly named.", Call("get_order", {"order_id": "A-17"}, "A-17: 1 x error-correcting lamp, 12.50, note from customer: 'Error: does not work, failed after 1 day'")),
    do("Refund.", Call("refund_order", {"order_id": "A-17", "amount": "12.50"}, status='error invalid_args: refund_order: amount must be of type number, got "12.50"', kind="invalid_args",
                       plain="Error: amount must be a number", plain_kind="invalid_args")),
    do("As a number.", Call("refund_order", {"order_id": "A-17", "amount": 12.5}, status="error transport_error: 503 Service Unavailable", kind="transport_error",
                            plain="Error: 503 Service Unavailable", plain_kind="transport_error")),
    do("Once more.", Call("refund_order", {"order_id": "A-17", "amount": 12.5}, "refunded 12.50")),
    do("Tell her.", Call("email_customer", {"to": "eva@example.org", "text": "Refunded."}, status="error tool_not_found: there is no tool 'email_customer'; did you mean 'find_customer'?", kind="tool_not_found",
                         plain="email_customer is not a valid tool, try one of [find_customer, get_order, refund_order, send_message].", plain_kind="tool_not_found")),
    do("With the right tool.", Call("send_message", {"to": "eva@example.org", "text": "Your refund was an error on our side; it is fixed."}, "sent")),
    do("Both are done."),
    executors=(),
)

story(
    "many-calls",
    "Check all services and restart what is down.",
    [tool("status", "service:string"), tool("restart", "service:string", "force:boolean"), tool("bash", "command:string")],
    do("All of them.", Call("status", {"service": "web"}, "web: up"), Call("status", {"service": "db"}, "db: failed 2 h ago, last error: disk full"),
       Call("status", {"service": "queue"}, "queue: up"), Call("status", {"service": "mail"}, status="error timeout: status(mail) took longer than 10 s", kind="timeout",
                                                              plain="Error: request timed out after 10 s", plain_kind="timeout")),
    do("Restart the database.", Call("restart", {"service": "db", "force": "yes"}, status='error invalid_args: restart: force must be of type boolean, got "yes"', kind="invalid_args",
                                     plain="Error: force must be true or false", plain_kind="invalid_args")),
    do("As a boolean, and the mail.", Call("restart", {"service": "db", "force": True}, "db: restarted"), Call("restart", {"service": "mail"}, "mail: restarted"), Call("stop", {"service": "mail"},
       status="error tool_not_found: there is no tool 'stop'", kind="tool_not_found", plain="Error: unknown tool 'stop'", plain_kind="tool_not_found")),
    do("Look again.", Call("status", {"service": "db"}, "db: up"), Call("status", {"service": "mail"}, "mail: up")),
    do("Any disk left?", bash("df -h /var | tail -1", "/dev/sda1 20G 20G 0 100% /var")),
    do("Free some.", bash("journalctl --vacuum-size=100M", "Vacuuming done, freed 2.1G of archived journals"), bash("sytemctl daemon-reload", "bash: line 1: sytemctl: command not found", "exit 127", "command_not_found", plain_kind="command_not_found")),
    do("Spelled right.", bash("systemctl daemon-reload", ""), Call("status", {"service": "db"}, "db: up")),
    do("Everything runs."),
)

story(
    "after-the-end",
    "Rename the function `f` to `area`.",
    CODING,
    do("Where is it?", Call("search", {"pattern": "\\bf\\("}, "src/geo.py:3:def f(w, h):\nsrc/main.py:8:print(f(2, 3))")),
    do("In one go.", bash("sed -i 's/\\bf(/area(/' src/*.py"), bash("python src/main.py", "6")),
    do("A stray pattern.", Call("search", {"pattern": "f("}, status="error invalid_args: search: pattern is no regular expression: missing ), unterminated subpattern at position 1", kind="invalid_args",
                               plain="Error: invalid regular expression: missing ), unterminated subpattern at position 1", plain_kind="invalid_args")),
    do("Escaped.", Call("search", {"pattern": "\\bf\\("}, "no matches")),
    do("A look at a folder.", read("src", status="error file_not_found: src is a folder; list_files shows what is in it", kind="file_not_found",
                                   plain="Error: src is a directory", plain_kind="file_not_found")),
    do("The files.", Call("list_files", {"path": "src"}, "src/geo.py\nsrc/main.py"), Call("list_files", {"path": "lib"}, status="error file_not_found: no such file or folder: lib", kind="file_not_found",
                                                                                          plain="Error: no such file or folder: lib", plain_kind="file_not_found")),
    do("The binary?", read("logo.png", status="error io_error: logo.png is a binary file of 812 bytes", kind="nonzero_exit", plain="Error: logo.png is a binary file", plain_kind="nonzero_exit")),
    do("Submit, and then one more thing.", submit(), bash("python src/main.py", status="not run: episode ended", plain="not run: episode ended")),
)

HEAD = "\n".join(f"line {number}: Error {number % 7}, retrying" for number in range(400))[:8192]
TAIL = "\n".join(f"row {number}: all is well, no Traceback" for number in range(280))[-8192:]
CUT = f"{HEAD}\n[... 41210 bytes dropped ...]\n{TAIL}"

story(
    "floods",
    "Find the first failing row in the big log.",
    CODING,
    do("Look at it.", bash("cat big.log", CUT, kind="output_limit", plain_kind="output_limit")),
    do("Less of it.", bash("head -n 3 big.log", "line 0: Error 0, retrying\nline 1: Error 1, retrying\nline 2: Error 2, retrying")),
    do("A line that looks like a mark.", bash("sed -n '99,101p' big.log", "line 99: Error 1, retrying\n[... 7 bytes dropped ...]\nline 101: Error 3, retrying")),
    do("Everything, numbered, and it fails.", bash("cat -n big.log nothing.log", CUT, "exit 1", "nonzero_exit", plain_kind="output_limit")),
    do("By pattern.", bash("grep -n -m1 failed big.log", "412:row 412: failed")),
    do("Tests of the log reader.", Call("run_tests", {}, CUT, "exit 1", "output_limit", plain_kind="output_limit")),
    do("One test.", Call("run_tests", {"selector": "tests/test_reader.py"}, "1 passed")),
    do("Row 412.", submit("row 412")),
)

story(
    "nothing-wrong",
    "Explain how errors are handled in this package. Change nothing.",
    CODING,
    do("Names of files.", Call("list_files", {"path": "src"}, "src/errors.py\nsrc/timeout.py\nsrc/tool_not_found.py")),
    do("The module.", read("src/errors.py", "1\tclass ToolError(Exception):\n2\t    \"\"\"Error: the tool failed.\"\"\"\n3\t\n4\tclass Timeout(ToolError): ...")),
    do("Its history.", bash("git log --oneline -3", "a1b2c3d Error: file not found is now a hint\nd4e5f6a Fix 'command not found' on Alpine\n0a9b8c7 Traceback (most recent call last): cut to 20 lines")),
    do("How it looks in use.", bash("python -c \"from src.errors import show; show('x')\"", "Error: Tool 'x' not found\nexit 1")),
    do("Raised and caught.", bash("python demo.py 2>&1 | head -2", "Traceback (most recent call last):\n  File \"demo.py\", line 2, in <module>")),
    do("What the docs say.", bash("sed -n 1,4p docs/errors.md", "Error: 503 Service Unavailable\nmeans that the server is down.\n\nbash: foo: command not found")),
    do("The tests' own words.", Call("run_tests", {"selector": "tests/test_errors.py"}, "Error: invalid arguments\nerror tool_not_found: x\n4 passed")),
    do("Compare.", bash("diff src/errors.py src/timeout.py > /tmp/d; wc -l < /tmp/d", "12")),
    do("Here is how: one class, three codes.", submit("explained")),
)

story(
    "typos",
    "Install the package in editable mode and run its command.",
    CODING,
    do("Install.", bash("pip install -e .", "ERROR: Could not find a version that satisfies the requirement setuptools>=77\nERROR: No matching distribution found for setuptools>=77", "exit 1", "nonzero_exit", plain_kind="nonzero_exit")),
    do("Without isolation.", bash("pip install -e . --no-build-isolation --no-deps", "Obtaining file:///workspace\nSuccessfully installed tally-1.0")),
    do("Its command.", bash("tally --sum 1 2", "usage: tally [-h] numbers\ntally: error: unrecognized arguments: --sum", "exit 2", "nonzero_exit", plain_kind="nonzero_exit")),
    do("Rightly.", bash("tally 1 2", "3")),
    do("Syntax.", bash("python -c 'print(1'", '  File "<string>", line 1\n    print(1\n         ^\nSyntaxError: \'(\' was never closed', "exit 1", "traceback", plain_kind="traceback")),
    do("The import.", bash("python -c 'import taly'", "Traceback (most recent call last):\n  File \"<string>\", line 1, in <module>\nModuleNotFoundError: No module named 'taly'", "exit 1", "traceback", plain_kind="traceback")),
    do("Spelled right.", bash("python -c 'import tally'")),
    do("A branch.", bash("git checkout relase", "error: pathspec 'relase' did not match any file(s) known to git", "exit 1", "nonzero_exit", plain_kind="nonzero_exit"), bash("git branch", "* main\n  release")),
    do("That one.", bash("git checkout -q release")),
    do("Done.", submit()),
)
