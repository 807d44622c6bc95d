"""Commands that train: ``train`` and ``replay``."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import console
from ..options import INTERRUPTED, TERMINATED, Json, RunFolder, Url, sigterm_interrupts
from ..progress import progress_bar

if TYPE_CHECKING:
    from ...models import Episode
    from ...trainers.recipe.recipe import Recipe
    from ...trainers.replay.report import Report
    from ...trainers.replay.settings import ReplaySettings
    from ...trainers.run.records import Result


def train(
    recipe: Annotated[
        Path, typer.Argument(metavar="RECIPE.toml", help="A recipe's file, or a name of `etude list recipes`.")
    ],
    change: Annotated[
        list[str] | None, typer.Option("-o", help="Set KEY=VALUE in the recipe, such as train.steps=20; repeatable.")
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Check recipe, server, model and memory, and print the run; load no weights."),
    ] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="With --dry-run: check the recipe and its files only.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Train a model on the episodes of a server, or on solved episodes; run the same command again to resume."""
    from ...trainers.distributed import leave_group, rank
    from ...trainers.recipe.load import load
    from ...trainers.run.train import check, run
    from ...trainers.run.train import dry_run as check_all
    from .catalogue import recipe_path

    if offline and not dry_run:
        raise typer.BadParameter("--offline is only read with --dry-run; a run needs its server and its model")
    resolved_recipe = load(recipe_path(recipe), change or [])
    if dry_run:
        silence_libraries()
        if offline:
            _, resolved = check(resolved_recipe, read_episodes, DIALOGUES)
        else:
            resolved = check_all(resolved_recipe, read_episodes, DIALOGUES)
        console.show(resolved, _flat(resolved), as_json)
        return
    silence_libraries()
    with progress_bar("train") as progress, sigterm_interrupts() as received:
        result = run(resolved_recipe, progress, dialogues=DIALOGUES, episodes=read_episodes)
    leave_group()
    if rank() == 0:  # of several processes, one reports
        _show_result(result, as_json)
    if result.interrupted:
        raise typer.Exit(TERMINATED if received else INTERRUPTED)
    console.exit_unless(result.ok)


def _show_result(result: "Result", as_json: bool) -> None:
    """Print a run's warnings, its evaluations, the place of its report, and why it was stopped."""
    from ...trainers.report.page import REPORT

    for warning in result.warnings:
        console.show_warning(warning)
    page = str(Path(result.out) / REPORT)
    row = {"steps": result.steps, "out": result.out, "seconds": result.seconds}
    for when in ("before", "after"):
        if (measured := getattr(result, when)) is not None:
            row |= {f"solved {when}": measured.solved, f"error turns {when}": measured.error_turn_rate}
    console.show({**console.plain(result), "ok": result.ok, "report": page}, [row], as_json)
    if not as_json:
        print(f"report: {page}")
    if result.stopped:
        console.show_error(result.stopped)


def replay(
    run: RunFolder,
    teachers: Annotated[Path, typer.Option(help="Read endpoints, prices and budget from this TOML file.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Write the preference pairs to this new file.")] = Path(
        "pairs.jsonl"
    ),
    url: Url = None,
    in_flight: Annotated[
        int, typer.Option(min=1, max=32, help="Ask about at most N turns at the same time; the pairs are the same.")
    ] = 8,
    as_json: Json = False,
) -> None:
    """Ask external teachers what they would have done at the turns of a run, and write preference pairs.

    With --url the answers are executed on that server before they count, in a session for each turn in flight; without
    it the teachers must agree. Run the same command again to resume: answers and their cost are kept.
    """
    import asyncio

    from ...environments.runs.reader import stored_episodes
    from ...errors import ReplayError
    from ...trainers.replay.files import check_new, forget_answers, log_of
    from ...trainers.replay.settings import ValueSettings, load_settings

    settings = load_settings(teachers)
    if url is None and settings.value != ValueSettings():
        raise ReplayError(f"{teachers}: [value] needs a server that executes answers; give --url, or remove [value]")
    episodes = [stored.episode for stored in stored_episodes(run)]
    check_new(out)
    report = asyncio.run(_replay(episodes, settings, out, url, in_flight))
    pairs = sum(report.pairs.values())
    if pairs and not report.lacks:
        forget_answers(out)
    row: dict[str, Any] = {
        "turns": report.turns,
        "questioned": report.questioned,
        "executed": report.executed,
        "pairs": pairs,
    }
    row |= {"usd": report.usd, "usd per pair": report.usd_per_pair, "stopped": report.stopped, "out": str(out)}
    console.show({**report.row(), "ok": pairs > 0}, [row], as_json)
    for warning in report.warnings():
        console.show_warning(warning)
    if not pairs:
        console.show_error(f"no turn became a pair ({report.why_none()}); see {log_of(out)}; the answers are kept")
        raise typer.Exit(1)
    if report.lacks:
        remedy = f"fix the cause, delete {out} and {log_of(out)}, and run the same command again"
        console.show_warning(f"the replay is incomplete ({report.lacks}); the answers are kept; to resume, {remedy}")


async def _replay(
    episodes: Sequence["Episode"], settings: "ReplaySettings", out: Path, url: str | None, in_flight: int
) -> "Report":
    """Ask the teachers, and end their connections however it went. Raises ReplayError when the server is lost."""
    from ...client import Client
    from ...errors import ConnectionLost, ReplayError
    from ...trainers.replay.external_models import open_teachers
    from ...trainers.replay.files import answers_of, with_cassettes
    from ...trainers.replay.run import replay as ask

    teachers = open_teachers(with_cassettes(settings, out), charges=answers_of(out) / "charges.log")
    turns = sum(len(episode.turns) for episode in episodes)
    clients = [] if url is None else [Client(url) for _ in range(max(1, min(in_flight, turns)))]
    try:
        for client in clients:
            await client.connect()
        with progress_bar("replay") as progress:
            return await ask(
                episodes,
                teachers,
                clients or None,
                out,
                settings=settings,
                progress=lambda done, total: progress("turns", done, total),
                in_flight=in_flight,
            )
    except ConnectionLost as error:
        raise ReplayError(f"{error}; start it again and run the same command: the answers are kept") from error
    finally:
        for teacher in teachers:
            await teacher.close()
        for client in clients:
            await client.close()


def read_episodes(run: Path) -> list["Episode"]:
    """Return the valid episodes of a run, for recipes of stage "sft"."""
    from ...environments.runs.reader import stored_episodes

    return [stored.episode for stored in stored_episodes(run)]


def write_dialogues(path: Path, recipe: "Recipe") -> None:
    """Write the dialogues that a small model is pretrained on as JSON lines."""
    import json

    from ...environments.drill.dialogues import dialogues

    sizes = recipe.model.sizes
    with path.open("w", encoding="utf-8") as file:
        for row in dialogues(sizes.dialogues, level=sizes.level, skill=sizes.skill, seed=recipe.seed):
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


DIALOGUES = {"drill": write_dialogues}
"""Values of ``model.make``, with the function that writes the dialogues of each."""


def silence_libraries() -> None:
    """Hide warnings that libraries print for their developers, unless ETUDE_DEBUG is set."""
    import os
    import warnings

    if not console.debugging():
        os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
        warnings.filterwarnings("ignore", category=FutureWarning)


def _flat(resolved: dict[str, Any], prefix: str = "") -> list[dict[str, Any]]:
    """Return one row for each setting of a nested table."""
    rows: list[dict[str, Any]] = []
    for name, value in resolved.items():
        key = f"{prefix}.{name}".lstrip(".").removeprefix("recipe.")
        rows += _flat(value, key) if isinstance(value, dict) and value else [{"key": key, "value": str(value)}]
    return rows
