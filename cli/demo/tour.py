"""Stages of the demo, run one after the other."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from statistics import fmean

from ...environments.agents.erring import script
from ...environments.drill.tasks import DrillTasks
from ...environments.runs.writer import FILE_NAME
from ...environments.sandbox import available
from ...environments.sandbox.registry import configured_names
from ...environments.snapshots import build_snapshot
from ...environments.snapshots.store.cache import check_writable, write_whole
from ...environments.tasks.task_set import TaskSet
from ...errors import DemoError
from ...generators.generate import generate
from ...generators.output.report import Report
from ...generators.validation.audit import CHECKS, EXPECTED, validate
from ...models import Episode, SandboxReport, Task
from ...server.viewer import write_report
from ..progress import Progress, as_updates
from . import training
from .players import Game, play_all, served
from .stages import CHECK, PACKAGE, PLAY, TASKS, TRAIN, AgentRow, Demo, Display, Stage, Training

GENERATOR = "fd_function"
DRILL = "drill-chain-1"
STUMBLER = "stumbler"


class Tour:
    """One run of the demo: where it writes, how it plays, and how long each stage took."""

    def __init__(self, source: str, out: Path, display: Display, *, jobs: int, backend: str) -> None:
        self.source, self.out, self.display, self.jobs, self.backend = source, out, display, jobs, backend
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, stage: Stage) -> Iterator[Progress]:
        """Show and time one stage."""
        started = time.monotonic()
        with self.display.stage(stage) as progress:
            yield progress
        self.seconds[stage.title] = round(time.monotonic() - started, 1)

    def build(self) -> int:
        """Build the package once, so that every task can use it; return how many tests pass every time."""
        with self.stage(PACKAGE) as progress:
            snapshot = build_snapshot(self.source, progress=lambda phase: progress(phase, 0, 0))
        return len(snapshot.baseline.passed)

    def make_tasks(self, count: int) -> tuple[TaskSet, Report]:
        """Generate and validate tasks. Raises DemoError when no candidate became a task."""
        with self.stage(TASKS) as progress:
            report = generate(
                [self.source],
                generators=[GENERATOR],
                count=count,
                seed=0,
                out=self.out,
                jobs=self.jobs,
                backend=self.backend,
                progress=as_updates(progress),
            )
        if not report.tasks:
            raise DemoError(f"none of {report.candidates} candidates became a task; see {self.out}/report.json")
        return TaskSet.load(self.out), report

    def check(self) -> None:
        """Play the scripted agents on every task in this process. Raises DemoError for a wrong reward."""
        skipped = [name for name in CHECKS if name not in EXPECTED]  # `generate` has just made the other checks
        with self.stage(CHECK) as progress:
            audit = validate(
                self.out, jobs=self.jobs, backend=self.backend, skip=skipped, progress=as_updates(progress)
            )
        if audit.problems:
            raise DemoError(f"{audit.problems[0]}; run `etude validate {self.out}`")

    def play(self, tasks: list[Task]) -> tuple[list[Game], list[Episode]]:
        """Serve the tasks, then a drill, and let the scripted agents play them over OpenEnv's socket."""
        games = [Game(agent, task) for agent in EXPECTED for task in tasks] + [Game(STUMBLER, tasks[0])]
        drill = [Game(STUMBLER, DrillTasks().by_id(DRILL))]
        with self.stage(PLAY) as progress:
            progress("starting the server", 0, 0)
            with served(["--tasks", str(self.out), "--sandbox", self.backend], self.out / "server.log") as url:
                episodes = asyncio.run(play_all(url, games, self.jobs, progress))
            progress("starting the server of the drills", 0, 0)
            with served(["--env", "drill"], self.out / "drill.log") as url:
                episodes += asyncio.run(play_all(url, drill, self.jobs, progress))
        return [*games, *drill], episodes

    def train(self) -> Training | None:
        """Train the tiny model; None where the trainer's packages are missing. Raises KeyboardInterrupt."""
        if not training.can_train():
            return None
        with self.stage(TRAIN) as progress:
            result = training.train(self.out / "train", progress)
        if result is None:
            raise KeyboardInterrupt
        return result


def run_demo(
    source: str,
    display: Display,
    *,
    count: int = 3,
    out: Path = Path("runs/demo"),
    jobs: int = 2,
    backend: str = "auto",
    train: bool = True,
) -> Demo:
    """Run every stage and return the result. Raises DemoError, and what generating, validating and training raise."""
    try:
        check_writable(out)  # the first stage takes long, and writes nothing there
    except OSError as error:
        raise DemoError(f"cannot write to {out}: {error.strerror}; choose another --out") from None
    tour = Tour(source, out, display, jobs=jobs, backend=backend)
    tests = tour.build()
    tasks, generated = tour.make_tasks(count)
    tour.check()
    games, episodes = tour.play(list(tasks))
    rows = agent_rows(games, episodes)
    report = write_episodes(out, games, episodes)
    trained = tour.train() if train else None
    sandbox = episodes[0].sandbox
    return Demo(
        source=source,
        tests=tests,
        tasks=len(tasks),
        candidates=generated.candidates,
        rows=rows,
        sandbox=describe_sandbox(sandbox) if sandbox is not None else "none",
        report=report,
        seconds=tour.seconds,
        training=trained,
        ok=all(row.ok for row in rows) and not (trained and trained.stopped),
    )


def write_episodes(out: Path, games: list[Game], episodes: list[Episode]) -> str:
    """Write the episodes as ``etude run`` does, and the page that shows them; return the page's path."""
    lines = []
    for game, episode in zip(games, episodes, strict=True):
        row = {"agent": game.agent, "cause": "", "sample": 0, "settings": {}, "usage": {}}
        lines.append(json.dumps({**row, **episode.model_dump(mode="json")}, ensure_ascii=False) + "\n")
    write_whole(out / FILE_NAME, "".join(lines).encode())
    return write_report([out], out / "report.html", tasks=out).out


def agent_rows(games: list[Game], episodes: list[Episode]) -> list[AgentRow]:
    """Return the rows of the table: one for each agent and kind of task."""
    groups: dict[tuple[str, str], list[tuple[Game, Episode]]] = {}
    for game, episode in zip(games, episodes, strict=True):
        groups.setdefault((game.agent, game.plays), []).append((game, episode))
    return [_row(agent, plays, played) for (agent, plays), played in groups.items()]


def _row(agent: str, plays: str, played: list[tuple[Game, Episode]]) -> AgentRow:
    expected = 1.0 if agent == STUMBLER else EXPECTED[agent]
    rewards = [episode.reward.value if episode.reward else 0.0 for _, episode in played]
    ok = all(reward == expected for reward in rewards)
    if agent == STUMBLER:
        ok = ok and all(_mistakes_are_marked(game.task, episode) for game, episode in played)
    errors = [error for _, episode in played for error in episode.error_turns]
    hints = sum(len(error.hints) for error in errors)
    return AgentRow(agent, plays, len(played), fmean(rewards), expected, len(errors), hints, ok)


def _mistakes_are_marked(task: Task, episode: Episode) -> bool:
    """Return whether exactly the stumbler's planned mistakes are error turns, each of its kind."""
    marked = [(error.turn, error.kind) for error in episode.error_turns]
    return marked == [(mistake.turn, mistake.kind) for mistake in script(task)[1]]


def describe_sandbox(sandbox: SandboxReport) -> str:
    """Return how isolated the agents were and, where a stronger sandbox exists, how to get it."""
    lacks = f", lacks {', '.join(sandbox.lacks)}" if sandbox.lacks else ""
    used = f"{sandbox.backend} (isolation by {sandbox.isolation}, limits by {sandbox.limits}{lacks})"
    meant = configured_names()
    stronger = takewhile(lambda item: item[0] != sandbox.backend, available().items())
    return ". ".join([used, *(f"Stronger: {name}: {why}" for name, why in stronger if why and name in meant)])
