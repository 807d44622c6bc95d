"""Grade of one task, made inside its container by ``test.sh``; this file is copied into the task's ``tests`` folder.

It needs Python 3.8 and the standard library. As in Etude's own grader the tests run on a new tree: the task's, then the
agent's source files. They report in signed records and, where this process is root, run as another user than this
process, which alone writes the reward. When the machine fails there is no reward file, so that no score is recorded.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import re
import resource
import secrets
import shutil
import signal
import subprocess
import tarfile
import threading
from pathlib import Path
from typing import Any

UID = 65532
MAX_FILES = 10_000
MAX_BYTES = 64 << 20


def main() -> None:
    """Grade the task whose files are beside this one."""
    here = os.path.dirname(os.path.abspath(__file__))
    job = json.loads(Path(here, "job.json").read_text("utf-8"))
    workspace = job["workspace"]
    shutil.rmtree(workspace, ignore_errors=True)
    os.makedirs(workspace)
    with tarfile.open(os.path.join(here, "tree.tar.gz")) as tar:
        tar.extractall(workspace)  # the task's own archive
    refused = put_sources(job, workspace) if os.path.exists(job["archive"]) else ["the agent's files did not arrive"]
    give_away(workspace)
    key = secrets.token_bytes(32)
    exit_code, timed_out, channel, output = run(job, key)
    outcomes, problem = outcomes_of(channel, key)
    problem = "timeout" if timed_out else problem
    report(job, outcomes, problem, {"exit_code": exit_code, "refused": refused, "output": output[-4000:]})


def put_sources(job: dict[str, Any], workspace: str) -> list[str]:
    """Replace the workspace's source files by the agent's; return what was refused, with the reason."""
    for folder, _, names in os.walk(workspace):
        for name in names:
            path = os.path.relpath(os.path.join(folder, name), workspace)
            if is_source(job, path):
                os.unlink(os.path.join(workspace, path))
    refused: list[str] = []
    try:
        with tarfile.open(job["archive"]) as tar:
            put_members(job, workspace, tar, refused)
    except (tarfile.TarError, EOFError, ValueError):  # the agent's doing, and no reason to give no score
        refused.append("the archive is damaged from here on")
    return refused


def put_members(job: dict[str, Any], workspace: str, tar: tarfile.TarFile, refused: list[str]) -> None:
    """Write the source files of the archive into the workspace, and add the names of others to ``refused``."""
    files = size = 0
    for member in tar:
        path = os.path.normpath(member.name)
        files, size = files + 1, size + member.size
        if files > MAX_FILES or size > MAX_BYTES:
            refused.append("too many files or bytes from here on")
            return
        content = tar.extractfile(member) if member.isreg() and is_source(job, path) else None
        target = Path(workspace, path)
        # A link in the task's own tree may lead to a place that is not the agent's.
        if content is None or target.resolve() != Path(workspace).resolve() / path:
            refused.append(path)
            continue
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.read())
            target.chmod(0o755 if member.mode & 0o100 else 0o644)
        except OSError:  # a file in the place of a folder
            refused.append(path)


def is_source(job: dict[str, Any], path: str) -> bool:
    """Return whether the agent's version of a file is graded."""

    def matches(patterns: list[str]) -> bool:
        return any(re.fullmatch(pattern, path, re.DOTALL) for pattern in patterns)

    inside = not path.startswith(("/", ".."))
    return inside and matches(job["sources"]) and not matches(job["protected"])


def give_away(workspace: str) -> None:
    """Make the user of the tests the owner of the tree, where this process may."""
    if os.geteuid() != 0:
        return
    os.chown(workspace, UID, UID)
    for folder, names, files in os.walk(workspace):
        for name in [*names, *files]:
            os.chown(os.path.join(folder, name), UID, UID, follow_symlinks=False)


def limit_rights(cpu_s: int) -> None:
    """Make the child another user, where this process may, with a limit of CPU time."""
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    if os.geteuid() != 0:
        return
    os.setgroups([])
    os.setgid(UID)
    os.setuid(UID)


def run(job: dict[str, Any], key: bytes) -> tuple[int, bool, bytes, str]:
    """Run the tests; return the exit code, whether they timed out, the records, and the printed text."""
    names = {**job["run"], "tests": [*job["fail_to_pass"], *job["pass_to_pass"]], "key": key.hex()}
    names.update(order="given", most_failures=0, coverage=[], test_cpu_s=None)
    receive, send = os.pipe()
    fixed = {"HOME": "/tmp", "PYTHONHASHSEED": "0", "ETUDE_CHANNEL": str(send)}
    process = subprocess.Popen(
        job["command"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=job["workspace"],
        env={**job["environment"], **fixed},
        pass_fds=[send],
        start_new_session=True,
        preexec_fn=lambda: limit_rights(int(job["timeout_s"]) + 1),
    )
    os.close(send)
    records: list[bytes] = []
    reader = threading.Thread(target=lambda: records.extend(iter(lambda: os.read(receive, 1 << 16), b"")), daemon=True)
    reader.start()
    try:
        output, _ = process.communicate(json.dumps(names).encode(), timeout=max(10 * job["timeout_s"], 300.0))
        timed_out = process.returncode in (-signal.SIGXCPU, -signal.SIGKILL)
    except subprocess.TimeoutExpired:
        output, timed_out = b"", True
    stop_all(process)
    reader.join(10)
    return process.returncode, timed_out, b"".join(records), output.decode("utf-8", "replace")


def stop_all(process: subprocess.Popen[bytes]) -> None:
    """Kill the run: every process of the tests' user, or its group where that is this process's user too."""
    if os.geteuid() != 0:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return
    child = os.fork()
    if child == 0:
        os.setuid(UID)
        try:
            os.kill(-1, signal.SIGKILL)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    process.wait()


def outcomes_of(channel: bytes, key: bytes) -> tuple[dict[str, str], str]:
    """Return the outcome of each test, and why the run does not count (empty when it does)."""
    outcomes: dict[str, str] = {}
    end: dict[str, Any] = {}
    ran = 0
    for number, line in enumerate(channel.split(b"\n")[:-1]):
        sequence, mac, body = [*line.split(b" ", 2), b"", b""][:3]
        expected = hmac.new(key, b"%d %s" % (number, body), hashlib.sha256).hexdigest().encode()
        if sequence != b"%d" % number or not hmac.compare_digest(mac, expected) or end:
            return outcomes, "forged or damaged result record"
        record = json.loads(body)
        if record["kind"] == "result":
            ran += 1
            outcomes[record["id"]] = "repeated" if record["id"] in outcomes else record["outcome"]
        elif record["kind"] == "end":
            end = record
    if not end:
        return outcomes, "the run ended early"
    if end["cause"] or not ran == end["ran"] == end["selected"]:
        return outcomes, "the run ended early: " + str(end["cause"])
    return outcomes, "; ".join(end["violations"])


def report(job: dict[str, Any], outcomes: dict[str, str], problem: str, details: dict[str, Any]) -> None:
    """Write the reward, the product of its components, and beside it what failed."""
    failed = {
        name: {test: outcomes.get(test, "not run") for test in job[name] if problem or outcomes.get(test) != "passed"}
        for name in ("fail_to_pass", "pass_to_pass")
    }
    values = {name: float(not tests) for name, tests in failed.items()}
    scores = {"reward": values["fail_to_pass"] * values["pass_to_pass"], **values}
    logs = Path(job["logs"])
    logs.mkdir(parents=True, exist_ok=True)
    evidence = {**details, "failed": failed, "problem": problem, "separate_user": os.geteuid() == 0}
    for path, content in ((logs / "details.json", evidence), (logs / "reward.json", scores)):
        if os.path.lexists(path):
            path.unlink()
        path.write_text(json.dumps(content, indent=1), "utf-8")
    print(json.dumps({**scores, "problem": problem}))


if __name__ == "__main__":
    main()
