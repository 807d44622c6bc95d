"""The commands ``etude train`` and ``etude replay``."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import console
from .options import Json, Url

if TYPE_CHECKING:
    from ..models import Episode
    from ..trainers.recipe.recipe import Recipe
    from ..trainers.replay.report import Report
    from ..trainers.replay.settings import ReplaySettings

app = typer.Typer()
INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM


@app.command()
def train(
    recipe: Annotated[Path, typer.Argument(metavar="RECIPE.toml", help="What is run; see recipes/.")],
    change: Annotated[
        list[str] | None, typer.Option("-o", help="KEY=VALUE over the recipe, such as train.steps=20; repeatable.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check and print the resolved run; load nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Train a model on what a server plays, or on solved episodes. Run again, an interrupted run goes on."""
    from ..trainers.recipe.load import load
    from ..trainers.report.page import REPORT
    from ..trainers.run.train import check, run

    found = load(recipe, change or [])
    if dry_run:
        _, resolved = check(found, read_episodes, DIALOGUES)
        _show(resolved, _flat(resolved), as_json)
        return
    _hush()
    with console.progress_bar("train") as progress, sigterm_interrupts() as heard:
        result = run(found, progress, dialogues=DIALOGUES, episodes=read_episodes)
    for warning in result.warnings:
        console.show_warning(warning)
    page = str(Path(result.out) / REPORT)
    row = {"steps": result.steps, "out": result.out, "seconds": result.seconds}
    for when in ("before", "after"):
        if (measured := getattr(result, when)) is not None:
            row |= {f"solved {when}": measured.solved, f"error turns {when}": measured.error_turn_rate}
    _show({**console.plain(result), "ok": result.ok, "report": page}, [row], as_json)
    if not as_json:
        print(f"report: {page}")
    if result.stopped:
        console.show_error(result.stopped)
    if result.interrupted:
        raise typer.Exit(TERMINATED if heard else INTERRUPTED)
    if not result.ok:
        raise typer.Exit(1)


@app.command()
def replay(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, with its episodes.jsonl.")],
    teachers: Annotated[Path, typer.Option(help="TOML file of the teachers' endpoints, prices and budget.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="New file for the pairs.")] = Path("pairs.jsonl"),
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Ask external teachers what they would have done at the turns of a run: preference pairs, where they know better.

    With --url of a server that plays the run's tasks, what they say is executed; else their agreement must do. Run
    again, a replay that was cut short goes on with the answers that it has, and what they took counts.
    """
    import asyncio

    from ..environments.runs.reader import stored_episodes
    from ..errors import ReplayError
    from ..trainers.replay.files import check_new, forget_answers, log_of
    from ..trainers.replay.settings import ValueSettings, load_settings

    settings = load_settings(teachers)
    if url is None and settings.value != ValueSettings():
        raise ReplayError(f"{teachers}: [value] is about what is executed: give --url of a server, or take it out")
    episodes = [one.episode for one in stored_episodes(run)]
    check_new(out)
    report = asyncio.run(_replay(episodes, settings, out, url))
    pairs = sum(report.pairs.values())
    if pairs and not report.lacks:
        forget_answers(out)
    row: dict[str, Any] = {"turns": report.turns, "asked": report.asked, "executed": report.executed, "pairs": pairs}
    row |= {"usd": report.usd, "usd per pair": report.usd_per_pair, "stopped": report.stopped, "out": str(out)}
    _show({**report.row(), "ok": pairs > 0}, [row], as_json)
    for warning in report.warnings():
        console.show_warning(warning)
    if not pairs:
        console.show_error(f"no turn became a pair ({report.why_none()}): {log_of(out)} says more, answers are kept")
        raise typer.Exit(1)
    if report.lacks:
        again = f"mend that, remove {out} and {log_of(out)}, and give the same command"
        console.show_warning(f"this is not the whole replay ({report.lacks}): answers are kept; to go on, {again}")


async def _replay(episodes: Sequence[Episode], settings: ReplaySettings, out: Path, url: str | None) -> Report:
    from ..client import Client
    from ..errors import ConnectionLost, ReplayError
    from ..trainers.replay.external_models import open_teachers
    from ..trainers.replay.files import answers_of, with_cassettes
    from ..trainers.replay.run import replay as ask

    teachers = open_teachers(with_cassettes(settings, out), charges=answers_of(out) / "charges.log")
    client = None if url is None else await Client(url).connect()
    try:
        with console.progress_bar("replay") as progress:
            return await ask(
                episodes,
                teachers,
                client,
                out,
                settings=settings,
                progress=lambda done, total: progress("turns", done, total),
            )
    except ConnectionLost as error:
        raise ReplayError(f"{error}: start it again and give the same command, answers are kept until then") from error
    finally:
        for teacher in teachers:
            await teacher.close()
        if client is not None:
            await client.close()


def demo_training(out: Path) -> dict[str, Any] | None:
    """A minute of ``recipes/tiny.toml``, anew; None where the trainer's packages are not installed."""
    import shutil
    from importlib.util import find_spec

    if find_spec("torch") is None:
        return None
    from ..trainers.recipe.load import load
    from ..trainers.report.page import REPORT
    from ..trainers.run.train import run

    _hush()
    shutil.rmtree(out, ignore_errors=True)
    recipe = load(Path(__file__).parent / "recipes" / "tiny.toml", [f"out={out}"])
    with console.progress_bar("train") as progress:
        result = run(recipe, progress, dialogues=DIALOGUES)
    return {**console.plain(result), "ok": result.ok, "report": str(out / REPORT)}


def read_episodes(run: Path) -> list[Episode]:
    """The valid episodes of a run, for stage "sft"."""
    from ..environments.runs.reader import stored_episodes

    return [one.episode for one in stored_episodes(run)]


@contextmanager
def sigterm_interrupts() -> Iterator[list[int]]:
    """SIGTERM does what Ctrl-C does wherever it comes, and the exit code tells of it. Yields a list that it fills."""
    heard: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield heard
        return

    def interrupt(number: int, frame: Any) -> None:
        heard.append(number)
        ours = signal.getsignal(signal.SIGINT)
        if not callable(ours):  # a shell starts what runs behind it with SIGINT ignored
            raise KeyboardInterrupt
        ours(signal.SIGINT, frame)

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield heard
    except KeyboardInterrupt:
        raise typer.Exit(TERMINATED if heard else INTERRUPTED) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def _hush() -> None:
    """What libraries tell their developers is not for whoever watches a run."""
    import os
    import warnings

    if not console.debugging():
        os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
        warnings.filterwarnings("ignore", category=FutureWarning)


def write_dialogues(path: Path, recipe: Recipe) -> None:
    """What a small model is pretrained on, as JSON lines."""
    import json

    from ..environments.drill.dialogues import dialogues

    sizes = recipe.model.sizes
    with path.open("w", encoding="utf-8") as file:
        for row in dialogues(sizes.dialogues, level=sizes.level, skill=sizes.skill, seed=recipe.seed):
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


DIALOGUES = {"drill": write_dialogues}
"""What ``model.make`` may name, and what writes its dialogues."""


def _flat(resolved: dict[str, Any], place: str = "") -> list[dict[str, Any]]:
    """One row for each setting."""
    rows: list[dict[str, Any]] = []
    for name, value in resolved.items():
        key = f"{place}.{name}".lstrip(".").removeprefix("recipe.")
        rows += _flat(value, key) if isinstance(value, dict) and value else [{"key": key, "value": str(value)}]
    return rows


def _show(result: Any, rows: Sequence[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        console.show_json(result)
    else:
        console.show_table(rows)
