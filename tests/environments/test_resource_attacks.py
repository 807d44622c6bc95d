"""Resource attacks, in a turn and while a solution is graded: the agent is at fault, and the next episode is right.

Every test plays or grades an honest solution afterwards in the same process, which lives on with nothing in its way.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import pytest

from etude.environments.coding.session import CodingSession
from etude.environments.grading import grade
from etude.environments.sandbox import MIB, Change, Limits, available
from etude.environments.tasks.task_set import TaskSet
from etude.models import Grade, Observation, Task

CORE = "src/tally/core.py"
LIMITS = Limits(memory=256 * MIB, disk=16 * MIB, files=3000, processes=40, timeout_s=4.0)
SOLVE = {
    "tool": "edit_file",
    "arguments": {"path": CORE, "old": "    raise NotImplementedError\n", "new": "    return sum(values)\n"},
}
TURNS = {
    "fork bomb": ":(){ :|:& };:; sleep 60",
    "bomb of threads": "python3 -c 'import threading\nfor _ in range(999): threading.Timer(60, print).start()'",
    "memory": "python3 -c 'kept = [bytearray(1 << 24) for _ in range(1000)]'",
    "memory of many processes": "for n in $(seq 30); do tail -c 32M /dev/zero & done; wait",
    "shared memory": "head -c 1G /dev/zero >/dev/shm/big",
    "disk": "head -c 1G /dev/zero >big",
    "inodes": "seq 100000 | xargs touch",
    "many small files": "mkdir many && cd many && for n in $(seq 2000); do echo $n >$n; done",
    "sparse file": "truncate -s 1T sparse; ls -l sparse",
    "deep tree": 'python3 -c \'import os\nfor _ in range(1000): os.mkdir("d" * 30); os.chdir("d" * 30)\'',
    "links to links": "ln -s b a; ln -s a b; ln -s . here; mkdir l; for n in $(seq 500); do ln -s ../l l/$n; done",
    "line of 10 MB": "head -c 10000000 /dev/zero | tr '\\0' x",
    "endless output": "yes etude",
    "busy and deaf": "trap '' TERM INT HUP; while :; do :; done",
    "open files": "python3 -c 'import os\nwhile 1: os.open(\"/dev/null\", 0)'",
    "kill everything": "kill -9 -1; sleep 60",
}
SOLUTIONS = {
    "fork bomb": "while True:\n        os.fork()",
    "bomb of threads": "while True:\n        threading.Thread(target=time.sleep, args=(60,)).start()",
    "memory": "kept = [bytearray(1 << 24) for _ in range(1000)]\n    return len(kept)",
    "disk": "with open('/tmp/big', 'wb') as file:\n        while True:\n            file.write(bytes(1 << 20))",
    "inodes": "for n in range(10**6):\n        open(f'/tmp/{n}', 'w').close()",
    "deep tree": "os.chdir('/tmp')\n    for _ in range(10**5):\n        os.mkdir('d' * 50)\n        os.chdir('d' * 50)",
    "line of 10 MB": "print('x' * 10**7, flush=True)\n    return None",
    "endless output": "while True:\n        os.write(1, b'etude' * 1000)",
    "busy and deaf": "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n    while True:\n        pass",
    "sleeping": "time.sleep(3600)",
    "open files": "while True:\n        os.open('/dev/null', 0)",
    "closed files": "os.closerange(0, 4096)\n    return None",
    "deep recursion": "return total(values)",
    "kill everything": "os.kill(-1, signal.SIGKILL)\n    return None",
    "end at once": "os._exit(0)",
    "sparse file": "os.truncate(os.open('/tmp/sparse', os.O_CREAT | os.O_RDWR), 1 << 44)\n    return None",
}
QUICK = {"memory", "disk", "line of 10 MB"}
HEAD = "import os\nimport signal\nimport threading\nimport time\n\nfrom .words import LIMIT\n\n\n"
LARGEST = "def largest(values):\n    return min(max(values), LIMIT)\n\n\n"
HONEST = "return sum(values)"


def _some_slow(attacks: dict[str, str]) -> list[Any]:
    """Return the names of attacks; all but a few are slow."""
    return [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in attacks]


@pytest.fixture(params=["bubblewrap", pytest.param("docker", marks=pytest.mark.slow)])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """A sandbox that works here. Where CI=true a missing one is a failure."""
    name: str = request.param
    if reason := available()[name]:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"{name}: {reason}")
    yield name
    if name == "docker":
        from etude.environments.sandbox.docker.pool import close_pool

        close_pool()


async def _episode(session: CodingSession, *actions: dict[str, Any]) -> list[Observation]:
    await session.reset()
    return [await session.step(action) for action in actions]


@pytest.mark.parametrize("attack", _some_slow(TURNS))
def test_an_attack_in_a_turn_is_a_result_and_the_next_episode_is_right(
    tasks: TaskSet, backend: str, attack: str
) -> None:
    async def play() -> None:
        session = CodingSession(tasks, limits=LIMITS, backend=backend)
        try:
            bash = {"tool": "bash", "arguments": {"command": TURNS[attack]}}
            result, end = await _episode(session, bash, {"tool": "submit"})
            (message,) = result.messages
            assert len(message.content) < 200_000 and message.content.splitlines()[0]
            assert (end.done, end.reward) == (True, 0.0)
            reward = session.state().reward
            assert reward is not None and reward.valid
            honest = await _episode(session, SOLVE, {"tool": "submit"})
            assert (honest[-1].done, honest[-1].reward) == (True, 1.0)
        finally:
            await session.close()

    asyncio.run(play())


def _graded(task: Task, backend: str, body: str) -> Grade:
    text = f"{HEAD}{LARGEST}def total(values):\n    {body}\n".encode()
    quick = task.model_copy(update={"verifier": task.pytest.model_copy(update={"timeout_s": 5.0})})
    change = Change(path=CORE, kind="file", size=len(text), content=text)
    return asyncio.run(grade(quick, [change], backend=backend, limits=LIMITS))


@pytest.mark.parametrize("attack", _some_slow(SOLUTIONS))
def test_an_attack_while_it_is_graded_scores_0_and_the_next_grade_is_right(
    task: Task, backend: str, attack: str
) -> None:
    attacked = _graded(task, backend, SOLUTIONS[attack])
    assert (attacked.reward.value, attacked.reward.valid) == (0.0, True)
    assert attacked.failures
    assert _graded(task, backend, HONEST).reward.value == 1.0
