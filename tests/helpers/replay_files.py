"""Helpers of the tests of `etude replay`: scripted teachers that know drills, and files of teachers and pairs."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from etude.environments.drill.tasks import DrillTasks
from etude.environments.runs.reader import stored_episodes
from etude.models import Episode
from etude.trainers.replay.external_models import Answer, Teacher
from etude.trainers.replay.pairs import Pair
from etude.trainers.replay.settings import ReplaySettings, parse_settings
from etude.trainers.replay.turns.prefixes import State

Script = Callable[[int, dict[str, Any]], Any]
USAGE = (1000, 50)
COMMAND = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); from etude import cli; "
"""Start of a program that reacts to SIGINT even when the tests run with SIGINT ignored."""


def episodes_of(run: Path) -> dict[str, Episode]:
    """Return the episodes of a run by their prompts."""
    return {one.episode.prompt: one.episode for one in stored_episodes(run)}


def knowing(endpoints: Any, run: Path, slips: int | None = None) -> Script:
    """Return a script that makes the next call of the drill's solution, then submits; it errs at turn ``slips``."""
    tasks, episodes = DrillTasks(), episodes_of(run)

    def script(number: int, body: dict[str, Any]) -> Any:
        prompt = next(message["content"] for message in body["messages"] if message["role"] == "user")
        drill = tasks.drill(episodes[prompt].task_id)
        turns = [message for message in body["messages"] if message["role"] == "assistant"]
        called = [call["function"]["name"] for turn in turns for call in turn.get("tool_calls", [])]
        remaining = [(name, arguments) for name, arguments in drill.solution() if name not in called]
        name, arguments = remaining[0] if remaining else ("submit", {"answer": drill.answer})
        name = "no_such_tool" if len(turns) == slips else name
        return endpoints.say(None, endpoints.call(name, arguments), usage=USAGE)

    return script


def erring(endpoints: Any) -> Script:
    return lambda number, body: endpoints.say(None, endpoints.call("none_of_these", {}), usage=USAGE)


def failing(endpoints: Any) -> Script:
    return lambda number, body: endpoints.fail(400, "bad luck")


def teachers_file(path: Path, urls: Mapping[str, str], *, cassettes: bool = False, **tables: Any) -> Path:
    """Write a file of teachers; prices rise in the order of ``urls``, from 0.1 and 0.4 USD per million tokens."""
    text = ""
    for place, (name, url) in enumerate(urls.items()):
        row: dict[str, Any] = {"name": name, "model": f"m-{name}", "base_url": url}
        row["price"] = [0.1 * 10**place, 0.4 * 10**place]
        row |= {"cassette": f"{name}.jsonl"} if cassettes else {}
        text += "[[teachers]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in row.items())
    for name, table in tables.items():
        text += f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
    path.write_text(text)
    return path


def command(*arguments: Any) -> list[str]:
    return [sys.executable, "-c", COMMAND + "sys.exit(cli.main(sys.argv[1:]))", *map(str, arguments)]


def etude(*arguments: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=300)


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def error_line(done: subprocess.CompletedProcess[str]) -> str:
    """Return the one line of an error; progress may precede it."""
    lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert done.returncode and len(lines) == 1 and "Traceback" not in done.stderr, done.stderr
    return lines[0]


def settings(*urls: str, budget: dict[str, Any] | None = None, **more: Any) -> ReplaySettings:
    """Return settings with a teacher for each endpoint; the first one's price is 1 and 2 USD per million tokens."""
    rows = [
        {"name": f"t{i}", "model": f"m{i}", "base_url": url, "price": [1.0 + i, 2.0 + i], "max_tokens": 100, **more}
        for i, url in enumerate(urls)
    ]
    return parse_settings({"teachers": rows, "consensus": {"least": 1}, "budget": budget or {}})


def ask(teachers: list[Teacher], *states: State) -> list[Answer]:
    """Ask all teachers about each state, let them learn from their answers, then close them."""

    async def asked(teacher: Teacher, state: State) -> Answer:
        answer = await teacher.ask(state)
        teacher.learn(answer)
        return answer

    async def all_of_them() -> list[Answer]:
        try:
            return [await asked(teacher, state) for state in states for teacher in teachers]
        finally:
            for teacher in teachers:
                await teacher.close()

    return asyncio.run(all_of_them())


async def no_pause(seconds: float) -> None:
    pass


def pairs_file(path: Path) -> Path:
    """Write three pairs that a trainer can learn from."""
    about = {"kind": "correct", "task_id": "t", "turn": 0, "share": 1.0, "margin": 1.0, "teachers": {}, "weights": {}}
    for number, (chosen, rejected) in enumerate((("yes", "no"), ("found it", "none"), ("go on now", "stop"))):
        messages = [{"role": "user", "content": "Go on. " * (number + 1)}]
        actions = {"chosen": {"text": chosen}, "rejected": {"text": rejected}}
        pair = Pair(episode_id=f"e{number}", messages=messages, tools=[], **actions, **about)
        with path.open("a" if number else "w", encoding="utf-8") as file:
            file.write(pair.model_dump_json() + "\n")
    return path
