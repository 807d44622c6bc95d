"""What happened before the closing messages of ``claims.json``."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from etude.hints.transcript.past_turns import PastCall, PastTurn


@pytest.fixture
def logs(call: Callable[..., PastCall]) -> dict[str, list[PastTurn]]:
    """Transcripts by name."""
    core, visible = "src/tally/core.py", "tests/test_visible.py"

    def log(*calls: PastCall) -> list[PastTurn]:
        return [PastTurn("", (one,)) for one in calls]

    def bash(command: str, content: str = "ok") -> PastCall:
        return call("bash", {"command": command}, content)

    edit = call("edit_file", {"path": core, "old": "pass", "new": "return sum(values)"}, f"ok\nedited {core} at line 8")
    passed = call("run_tests", {}, f"ok\n{visible} ...\n3 passed")
    failed = call("run_tests", {}, f"exit 1\nFAILED {visible}::test_largest_of_nothing\n1 failed, 2 passed")
    patch = call("write_file", {"path": "/tmp/solution.patch", "content": f"--- a/{core}\n+++ b/{core}\n"}, "ok\nwrote")
    extra = call("write_file", {"path": "src/tally/extra.py", "content": "ONE = 1\n"}, "ok\nwrote 8 bytes")
    init = call("edit_file", {"path": "src/tally/__init__.py", "old": "a", "new": "b"}, "ok\nedited")
    return {
        "tested_ok": log(edit, passed),
        "tested_fail": log(edit, failed),
        "fail_then_edit": log(edit, failed, edit),
        "untested": log(edit),
        "nothing": log(call("read_file", {"path": core}, "ok\n1\tpass"), bash("git log --oneline", "ok\n")),
        "bash_ok": log(
            bash(f"sed -i 's/pass/return sum(values)/' {core}"), bash("pytest -q", "ok\n...\n3 passed in 0.1s")
        ),
        "bash_masked": log(edit, bash("pytest -q 2>&1 | tail -3", "ok\nFAILED x\n1 failed, 2 passed in 0.10s")),
        "fixed": log(edit, failed, edit, passed),
        "ok_then_edit": log(edit, passed, edit),
        "patch": log(patch, bash("git apply --whitespace=nowarn /tmp/solution.patch"), passed),
        "subset": log(edit, bash("python -m pytest tests/test_words.py", "ok\n2 passed in 0.1s"), failed),
        "two_files": log(extra, init),
        "removed": log(bash("git rm -q src/tally/old.py")),
        "script": log(bash("python /tmp/rewrite.py")),
        "typed": log(edit, bash("mypy src", "ok\nSuccess: no issues found")),
        "ran_error": log(edit, call("run_tests", {"selector": "--all"}, "error invalid_args: run_tests: selector")),
        "ran_timeout": log(edit, call("run_tests", {}, "timeout 30s\n...")),
    }
