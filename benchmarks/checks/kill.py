"""Remains after SIGKILL: the server, its worker or the engine is killed during an episode and during a grade.

    python benchmarks/checks/kill.py TASKS [--backend docker] [--rounds 20] [--victims server,worker,engine]
                                           [--engine-start CMD]

``worker`` is the process that owns a sandbox's processes: PID 1 of its container, or the keeper. ``engine`` (docker
only) is the daemon, which --engine-start starts again. After each kill, no process, container, control group, mount or
temporary file may remain, no episode may have a wrong score, and the next episode of the oracle must score 1. Run it as
root.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import glob
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from etude.client import Client
from etude.environments.actions import call, turn
from etude.environments.agents import scripted
from etude.environments.sandbox import SANDBOX_UID
from etude.environments.tasks.task_set import TaskSet
from etude.errors import ServerError
from etude.models import Task

LABEL = "etude.sandbox"
STALE = (Path("/var/run/docker.pid"), Path("/var/run/docker/containerd/containerd.pid"))
CLEAN_S = 60.0
START_S = 60.0


@dataclass
class Server:
    """A served task set; ``url`` is empty until it listens."""

    process: subprocess.Popen[str]
    url: str

    @classmethod
    def start(cls, tasks: Path, backend: str) -> Server:
        """Start a server and wait until it listens."""
        serve = [sys.executable, "-m", "etude.cli", "serve"]
        command = [*serve, "--tasks", str(tasks), "--port", "0", "--sandbox", backend]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("serving "):
            raise SystemExit(f"the server did not start: {line!r}")
        return cls(process, line.split()[1])

    def stop(self) -> None:
        """Stop the server and wait for it."""
        self.process.terminate()
        self.process.wait()


def sandbox_remains() -> set[str]:
    """Return the folders, control groups, mounts, processes and containers of sandboxes on this machine."""
    patterns = (f"{tempfile.gettempdir()}/etude-*", "/sys/fs/cgroup/**/etude-*")
    paths = [Path(path) for pattern in patterns for path in glob.glob(pattern, recursive=True)]
    folders = {str(path) for path in paths if path.is_dir() and not of_others(maker(path.name))}
    mounts = {line.split()[1] for line in Path("/proc/mounts").read_text().splitlines() if "etude" in line}
    return folders | mounts | sandbox_processes() | containers()


def sandbox_processes() -> set[str]:
    """Return the processes of the sandbox user, and keepers, as texts with the pid."""
    pids = [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]
    commands = {pid: command_line(pid) for pid in pids if of_sandbox(pid)}
    return {f"process {pid} {command[:80]}" for pid, command in commands.items() if not of_others(pid)}


def command_line(pid: int) -> str:
    """Return the command line of a process; '' when it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""


def of_sandbox(pid: int) -> bool:
    """Return whether a process belongs to the sandbox user or is a keeper."""
    try:
        return Path(f"/proc/{pid}").stat().st_uid == SANDBOX_UID or "keeper" in command_line(pid)
    except OSError:
        return False


def of_others(pid: int) -> bool:
    """Return whether a process is a descendant of another program that plays here; an orphan is not."""
    others = False
    while pid > 1:
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return others
        if pid == os.getpid():
            return False
        expected = pid <= 1 or of_sandbox(pid) or re.search(r"bwrap|containerd-shim|conmon", command_line(pid))
        others = others or not expected
    return others


def maker(name: str) -> int:
    """Return the pid in ``etude-PID-...``; 0 for a name without one."""
    match = re.match(r"etude-(\d+)-", name)
    return int(match[1]) if match else 0


def containers() -> set[str]:
    """Return the containers of sandboxes."""
    command = ["docker", "ps", "-aq", "--filter", f"label={LABEL}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return {f"container {name}" for name in done.stdout.split()}


def wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait until a condition holds; return False when it does not in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def kill_server(server: Server) -> None:
    """Kill the server."""
    server.process.kill()
    server.process.wait()


def kill_worker(server: Server) -> None:
    """Kill every worker of this server, because it is not visible from outside which one has the episode."""
    pids = []
    for name in containers():
        command = ["docker", "inspect", "-f", "{{.State.Pid}}", name.split()[1]]
        pids += [int(pid) for pid in subprocess.run(command, capture_output=True, text=True).stdout.split()]
    children = subprocess.run(["pgrep", "-P", str(server.process.pid)], capture_output=True, text=True).stdout.split()
    pids += [int(pid) for pid in children if b"keeper" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    if not pids:
        raise SystemExit("no worker found to kill")
    for pid in pids:
        if pid:
            with contextlib.suppress(ProcessLookupError):  # its grade is done, and it has ended
                os.kill(pid, signal.SIGKILL)


def kill_engine(server: Server) -> None:
    """Kill docker's daemon."""
    subprocess.run(["pkill", "-KILL", "-x", "dockerd"], check=True)


def engine_answers() -> bool:
    """Return whether docker's daemon answers."""
    return subprocess.run(["docker", "version"], capture_output=True, check=False).returncode == 0


def start_engine(command: str) -> None:
    """Start docker's daemon with a shell command, unless it runs."""
    if engine_answers():
        return
    # Its containerd and the shims outlive a killed engine, and keep the next from starting.
    for pattern in (["-x", "containerd"], ["-f", "containerd-shim"]):
        subprocess.run(["pkill", "-KILL", *pattern], check=False)
    for path in STALE:
        path.unlink(missing_ok=True)
    subprocess.Popen(command, shell=True, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if not wait_for(engine_answers, START_S):
        raise SystemExit(f"the engine does not start with: {command}")


async def episode(url: str, task: Task, actions: list[dict[str, object]], on_last: asyncio.Event) -> tuple[str, float]:
    """Play ``actions``; return how the episode ended and its reward. Set ``on_last`` before the last action is sent."""
    try:
        async with Client(url) as client:
            await client.reset(task_id=task.task_id)
            for action in actions[:-1]:
                await client.step(action)
            on_last.set()
            await client.step(actions[-1])
            reward = (await client.state()).reward
            return ("graded", reward.value) if reward is not None and reward.valid else ("invalid", 0.0)
    except ServerError as error:
        return type(error).__name__, 0.0
    finally:
        on_last.set()


async def killed(server: Server, task: Task, moment: str, kill: Callable[[Server], None], after: float) -> str:
    """Play an episode with a kill in it, and return how it ended. Raises SystemExit for a wrong score."""
    solution = scripted.solution(task).actions
    last = scripted.SUBMIT if moment == "grade" else turn("", call("bash", command="sleep 5"))
    sent = asyncio.Event()
    playing = asyncio.create_task(episode(server.url, task, [*solution, last], sent))
    await sent.wait()
    await asyncio.sleep(after)
    await asyncio.to_thread(kill, server)
    end, reward = await asyncio.wait_for(playing, 120)
    if end == "graded" and reward != 1.0:
        raise SystemExit(f"scored wrongly: the oracle got {reward} after a kill in mid-{moment}")
    return end


def oracle_scores(server: Server, task: Task) -> bool:
    """Return whether an episode of the oracle scores 1."""
    actions = [*scripted.solution(task).actions, scripted.SUBMIT]
    return asyncio.run(episode(server.url, task, actions, asyncio.Event())) == ("graded", 1.0)


def grade_seconds(server: Server, task: Task) -> float:
    """Return the seconds of a ``submit``."""

    async def play() -> float:
        async with Client(server.url) as client:
            await client.reset(task_id=task.task_id)
            for action in scripted.solution(task).actions:
                await client.step(action)
            started = time.monotonic()
            await client.step(scripted.SUBMIT)
            return time.monotonic() - started

    asyncio.run(play())
    return asyncio.run(play())


VICTIMS = {"server": kill_server, "worker": kill_worker, "engine": kill_engine}


def one_round(options: argparse.Namespace, tasks: list[Task], victim: str, moment: str, number: int) -> str:
    """Kill a victim once, check what must hold afterwards, and return how the episode ended."""
    rng = random.Random(f"{victim} {moment} {number}")
    task = rng.choice(tasks)
    before = sandbox_remains()
    server = Server.start(options.tasks, options.backend)
    try:
        span = grade_seconds(server, task) if moment == "grade" else 0.5
        end = asyncio.run(killed(server, task, moment, VICTIMS[victim], rng.uniform(0.0, span)))
        if victim == "engine":
            start_engine(options.engine_start)
        if victim == "server":
            assert wait_for(lambda: sandbox_remains() <= before, CLEAN_S), sandbox_remains() - before
            server = Server.start(options.tasks, options.backend)
        assert oracle_scores(server, task), "the oracle does not score 1 afterwards"
    finally:
        if server.process.poll() is None:
            server.stop()
    assert wait_for(lambda: sandbox_remains() <= before, CLEAN_S), sandbox_remains() - before
    return end


def main() -> None:
    """Run the check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", type=Path)
    parser.add_argument("--backend", default="docker")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--victims", default="server,worker,engine")
    parser.add_argument("--moments", default="episode,grade")
    parser.add_argument("--engine-start", default="dockerd")
    options = parser.parse_args()
    tasks = list(TaskSet.load(options.tasks))
    rows = {}
    for victim in options.victims.split(","):
        for moment in options.moments.split(","):
            ends = [one_round(options, tasks, victim, moment, number) for number in range(options.rounds)]
            rows[f"{victim} in mid-{moment}"] = dict(Counter(ends))
            print(
                f"{options.backend}: {victim} in mid-{moment}: {len(ends)} kills, nothing left; {dict(Counter(ends))}",
                flush=True,
            )
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
