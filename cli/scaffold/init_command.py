"""Command ``init``: a new package with one extension of Etude, which runs at once."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Annotated, Literal

import typer

from .. import console
from ..options import Json


def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name the package and the extension like this.")],
    kind: Annotated[
        Literal["generator", "environment", "monitor", "hint", "agent"],
        typer.Option(help="Add an extension of this kind."),
    ] = "environment",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the package to this new folder; default: ./NAME.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a package that adds an extension of your own, with a test; it runs at once."""
    from .package_files import KINDS, package_files

    files = package_files(name, kind)
    folder = out or Path(name)
    write_folder(folder, files)
    commands = [f"cd {folder}", "pip install --no-deps -e .", f"etude list {KINDS[kind].registry}", "pytest"]
    data = {"name": name, "kind": kind, "out": str(folder), "files": list(files), "commands": commands}
    console.show(data, [{"file": path, "lines": len(text.splitlines())} for path, text in files.items()], as_json)
    if not as_json:
        print(f"next: {' && '.join(commands)}")


def write_folder(folder: Path, files: dict[str, str]) -> None:
    """Write files to a new or empty folder, which appears with all of them. Raises RunError."""
    from ...errors import RunError

    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunError(f"{folder} is not an empty folder; choose another --out")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    except OSError as error:
        raise RunError(f"cannot write to {folder.parent}: {error.strerror}; choose another --out") from None
    try:
        new.chmod(0o755)
        for path, text in files.items():
            (new / path).parent.mkdir(parents=True, exist_ok=True)
            (new / path).write_text(text, encoding="utf-8")
        os.replace(new, folder)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
