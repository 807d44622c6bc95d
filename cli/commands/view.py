"""Commands ``view`` and ``fork``: look at episodes, and continue one from any of its turns."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import console
from ..options import Json, RunFolder, Sandbox, Url, asks_model, tasks_of
from ..progress import busy, progress_bar

Agent = Annotated[str, typer.Option("--agent", "-a", help="Continue with this agent: openai:MODEL, or noisy.")]


@asks_model("model")
def view(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Folders of runs or training runs, or folders that hold some."),
    ],
    tasks: Annotated[
        Path | None, typer.Option(help="Show diffs against this folder's tasks and their reference solutions.")
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", "-a", help="Let this agent continue episodes: openai:MODEL, or noisy.")
    ] = None,
    url: Url = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Listen on this port; 0 takes a free one.")] = 8765,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    model: Any = None,
    sandbox: Sandbox = "auto",
) -> None:
    """Browse runs in a local page, also while they are played, until interrupted."""
    from ...environments.hint_trials.forks import ForkSettings
    from ...server.viewer.site import SiteSettings, create_site, serve_site

    folders = run_folders(runs)
    forks = None
    if agent is not None:
        task_set = None if tasks is None else tasks_of(tasks)
        forks = ForkSettings(agent, forks_of(folders[0]), task_set, url, sandbox, model)

    def ready(address: str) -> None:
        print(f"viewing {address}", flush=True)
        if open_browser:
            import webbrowser

            webbrowser.open(address)

    with progress_bar("view") as progress:
        site = create_site(SiteSettings(folders, tasks, forks, lambda: training_data(folders), progress=progress))
    serve_site(site, port, ready)


@asks_model("model")
def fork(
    run: RunFolder,
    episode: Annotated[int, typer.Option(min=0, metavar="N", help="Continue the run's episode N; counts from 0.")],
    turn: Annotated[int, typer.Option(min=0, metavar="T", help="Continue before turn T; counts from 0.")],
    agent: Agent = "noisy",
    hint: Annotated[str, typer.Option(help="Show this text to the agent before its turn; default: none.")] = "",
    tasks: Annotated[
        str | None,
        typer.Option(help="Read the run's tasks from this folder; default: those that an environment makes itself."),
    ] = None,
    url: Url = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Append the new episode to this run; default: RUN/forks.")
    ] = None,
    model: Any = None,
    sandbox: Sandbox = "auto",
    as_json: Json = False,
) -> None:
    """Continue a stored episode from one of its turns, with a hint or without, and write the new episode."""
    import asyncio

    from ...environments.hint_trials.forks import ForkSettings, fork_episode
    from ...environments.runs.reader import read_run
    from ...errors import RunError

    stored = next((one for number, one in enumerate(read_run(run)) if number == episode), None)
    if stored is None:
        raise RunError(f"{run} has no episode {episode}; `etude view {run}` shows their numbers")
    task_set = None if tasks is None else tasks_of(tasks)
    settings = ForkSettings(agent, out or forks_of(run), task_set, url, sandbox, model)
    with busy("fork", f"playing {turn} turns again, then {agent} continues"):
        row = asyncio.run(fork_episode(stored, turn, hint, settings))
    reward = row["reward"]
    shown = {
        "task": row["task_id"],
        "turn": turn,
        "hint": bool(hint),
        "reward": reward["value"] if reward["valid"] else None,
        "end": row["end"],
        "turns": len(row["turns"]),
        "out": str(settings.out),
    }
    console.show({**shown, "episode_id": row["episode_id"], "ok": reward["valid"]}, [shown], as_json)
    console.exit_unless(reward["valid"])


def forks_of(run: Path) -> Path:
    """Return the folder for continuations of a run's episodes."""
    return run / "forks" if run.is_dir() else run.parent / "forks"


def run_folders(paths: Sequence[Path]) -> list[Path]:
    """Return the runs among ``paths`` and in folders there, each with the run of its forks. Raises RunError."""
    from ...environments.runs.writer import FILE_NAME
    from ...errors import RunError
    from ...trainers.report.run_files import is_run

    folders: list[Path] = []
    for path in paths:
        if not path.exists():
            raise RunError(f"there is no {path}; play a run with `etude run --out {path}`")
        if path.is_file() or (path / FILE_NAME).is_file() or is_run(path):
            inside = [path]
        else:
            inside = sorted(
                {file.parent for file in path.glob(f"*/**/{FILE_NAME}")} | set(filter(is_run, path.glob("*")))
            )
        folders += inside or [path]
        folders += [forks_of(one) for one in inside if (forks_of(one) / FILE_NAME).is_file()]
    return list(dict.fromkeys(folders))


def training_data(folders: Sequence[Path]) -> list[Mapping[str, Any]]:
    """Return the curves of the training runs among ``folders``."""
    from ...trainers.report.run_files import is_run
    from ...trainers.report.run_series import run_series

    return [{"run": number, **run_series(folder)} for number, folder in enumerate(folders) if is_run(folder)]
