"""The command ``push``: a folder of tasks, episodes or a model as a repository of the Hub."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import console
from ..options import Json, sigterm_interrupts
from ..progress import as_updates, busy, progress_bar

if TYPE_CHECKING:
    from ...environments.hub.manifest import Kind
    from ...generators.output.hub.repo_tree import RepoTree


def push(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of a task set, of a run with episodes, or of a trained model.")
    ],
    repository: Annotated[str, typer.Argument(metavar="USER/NAME", help="Push to this repository of the Hub.")],
    public: Annotated[
        bool, typer.Option("--public", help="Make the new repository public; task sets reveal their solutions.")
    ] = False,
    branch: Annotated[
        str, typer.Option("--branch", "--revision", help="Commit to this branch; it is created when it is new.")
    ] = "main",
    update: Annotated[
        bool, typer.Option("--update", help="Replace what an earlier push put there, in a new commit.")
    ] = False,
    pairs: Annotated[
        Path | None, typer.Option(help="Add the preference pairs of this file; default: RUN/pairs.jsonl if it exists.")
    ] = None,
    dry_run: Annotated[
        Path | None, typer.Option("--dry-run", metavar="OUT", help="Write the repository to this new folder instead.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Push tasks, episodes or a model to the Hub, privately; run the same command again to resume.

    The token is HF_TOKEN, or the one of `hf auth login`.
    """
    from ...environments.hub.address import check_repo_id
    from ...generators.output.hub.push import push as send
    from ...generators.output.hub.repo_tree import write_tree

    check_repo_id(repository)
    with busy("push", f"reading {folder}"):
        tree = repo_tree(folder, repository, pairs)
        if dry_run is not None:
            write_tree(tree, dry_run)
    if dry_run is not None:
        row: dict[str, Any] = {"kind": tree.kind, **tree.numbers, "files": len(tree.all_files), "bytes": tree.size}
        row["out"] = str(dry_run)
    else:
        with progress_bar("push") as progress, sigterm_interrupts():
            report = send(tree, repository, public=public, branch=branch, update=update, progress=as_updates(progress))
        row = {**tree.numbers, **console.plain(report)}
    shown = {name: _cell(value) for name, value in row.items() if name not in ("commit", "repository")}
    console.show(row, [shown], as_json)


def repo_tree(folder: Path, repository: str, pairs: Path | None) -> "RepoTree":
    """Return the repository of a folder, whose kind is known by its files. Raises HubError."""
    from ...errors import HubError

    kind = recognise(folder)
    if kind != "episodes" and pairs is not None:
        raise HubError(f"{folder} holds {kind}, and pairs belong to episodes; leave --pairs out")
    if kind == "tasks":
        from ...generators.output.hub.tasks_repo import tasks_repo

        return tasks_repo(folder, repository)
    if kind == "episodes":
        from ...generators.output.hub.episodes_repo import episodes_repo

        return episodes_repo(folder, repository, preference_rows(folder, pairs))
    from ...generators.output.hub.model_repo import model_folder, model_repo
    from ...trainers.report.model_card import model_card

    model = model_folder(folder) or folder
    return model_repo(model, model_card(model, repository))


def recognise(folder: Path) -> "Kind":
    """Return what a folder holds. Raises HubError when it holds nothing to push, or two things."""
    from ...environments.runs.writer import FILE_NAME as EPISODES
    from ...environments.tasks.task_set import FILE_NAME as TASKS
    from ...errors import HubError
    from ...generators.output.hub.model_repo import CONFIG, model_folder

    if not folder.is_dir():
        raise HubError(f"{folder} is not a folder; name one that holds {TASKS}, {EPISODES} or a model")
    present: dict[Kind, bool] = {
        "tasks": (folder / TASKS).is_file(),
        "episodes": (folder / EPISODES).is_file(),
        "model": model_folder(folder) is not None,
    }
    kinds = [kind for kind, holds in present.items() if holds]
    if not kinds:
        raise HubError(f"{folder} holds no {TASKS}, no {EPISODES} and no {CONFIG} with weights; name another folder")
    if len(kinds) > 1:
        raise HubError(f"{folder} holds {' and '.join(kinds)}; move one of them to another folder")
    return kinds[0]


def preference_rows(run: Path, pairs: Path | None) -> list[dict[str, Any]]:
    """Return the preference pairs of a run as rows, none when it has no file of pairs. Raises ReplayError."""
    from ...trainers.replay.pairs import read_pairs
    from ...trainers.replay.preference_rows import preference_rows as rows

    file = pairs or run / "pairs.jsonl"
    return rows(read_pairs(file)) if pairs is not None or file.is_file() else []


def _cell(value: Any) -> Any:
    return ", ".join(f"{name} {number}" for name, number in value.items()) if isinstance(value, dict) else value
