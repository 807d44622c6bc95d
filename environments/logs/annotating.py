"""``etude annotate``: logs in, one run with error turns and hints out, written atomically."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from ...errors import LogError, RunError, UnwritableRow
from ..runs.reader import REPORTED, Progress, Stored, no_progress, read_run
from ..runs.writer import FILE_NAME, row_and_line
from . import LOG_FORMATS
from .collection import RecognisedLog, logs_of
from .log_file import LogFile
from .record import LogEpisode, mapping, tool_schemas
from .stored import annotated_again, row_of, stored_episode

SHOWN_PROBLEMS = 20
"""Problems of one file that are described; the others are counted."""


@dataclass
class FileSummary:
    """What was read from one file."""

    file: str
    format: str
    episodes: int = 0
    turns: int = 0
    error_turns: int = 0
    hints: int = 0
    recovered: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    """Error turns by kind."""
    skipped: int = 0
    """Lines and episodes that could not be read."""
    problems: list[str] = field(default_factory=list)
    """The first of them, each with its place and its reason."""

    def add(self, stored: Stored) -> None:
        """Count an episode."""
        errors = stored.episode.error_turns
        self.episodes += 1
        self.turns += len(stored.episode.turns)
        self.error_turns += len(errors)
        self.hints += sum(len(error.hints) for error in errors)
        self.recovered += sum(error.recovered is True for error in errors)
        self.kinds = dict(sorted((Counter(self.kinds) + Counter(error.kind for error in errors)).items()))

    def skip(self, problem: str) -> None:
        """Count what could not be read."""
        self.skipped += 1
        if len(self.problems) < SHOWN_PROBLEMS:
            self.problems.append(problem)


@dataclass(frozen=True)
class AnnotateReport:
    """Result of ``annotate_logs``."""

    out: str
    """Folder that was written."""
    files: list[FileSummary]
    unread: list[str]
    """Named paths from which no episode was read, each with the reason."""

    @property
    def ok(self) -> bool:
        """Return whether every named path gave an episode."""
        return not self.unread


def annotate_logs(
    paths: Sequence[Path],
    out: Path,
    *,
    format_name: str = "",
    tools: Path | None = None,
    progress: Progress = no_progress,
) -> AnnotateReport:
    """Write the episodes of logs with their error turns and hints to ``out``; the same logs may be written again.

    ``tools`` is a file of tool schemas for the episodes of logs that hold none. Raises LogError when no episode is
    read, RunError when ``out`` holds another run or cannot be written, and UnknownName for a format.
    """
    if format_name:
        LOG_FORMATS.load(format_name)
    schemas = read_tools(tools) if tools is not None else []
    logs, unread = _named_logs(paths, format_name)
    files = {str(path) for path in paths} | {str(entry.log.path) for entry in logs}
    _check_out(out, files, logs)
    writer = _Writer(schemas, progress)
    summaries: list[FileSummary] = []
    with _replacement(out / FILE_NAME) as target:
        for entry in logs:
            summaries.append(writer.write(entry, target))
            if len(logs) > 1:
                progress("annotating files", len(summaries), len(logs))
        if not any(summary.episodes for summary in summaries):
            problems = [*unread, *(summary.problems[0] for summary in summaries if summary.problems)]
            raise LogError(problems[0] if problems else f"{paths[0]} holds no episode; name another log")
    read = [Path(summary.file) for summary in summaries if summary.episodes]
    refused = [path for path in paths if path.exists() and not any(path in (file, *file.parents) for file in read)]
    unread += [f"{path} holds no episode" for path in refused if not any(str(path) in text for text in unread)]
    return AnnotateReport(str(out), summaries, unread)


def read_tools(path: Path) -> list[dict[str, Any]]:
    """Return the tool schemas in a JSON file: a list, or an object with ``tools``. Raises LogError."""
    log = LogFile.open(path)
    values = log.sample()
    value = values[0] if values else None
    schemas = tool_schemas(value) or tool_schemas(mapping(value).get("tools"))
    if not schemas:
        raise LogError(f"{path} holds no tool schemas; write a JSON list of them")
    return schemas


def _named_logs(paths: Sequence[Path], name: str) -> tuple[list[RecognisedLog], list[str]]:
    """Return the logs at the paths, and why there is none at some of them."""
    logs: list[RecognisedLog] = []
    unread = []
    for path in paths:
        try:
            logs += logs_of(path, name)
        except LogError as error:
            unread.append(str(error))
    by_path = {entry.log.path.resolve(): entry for entry in reversed(logs)}
    return list(reversed(by_path.values())), unread


def _check_out(out: Path, files: set[str], logs: Sequence[RecognisedLog]) -> None:
    """Raise RunError when ``out`` holds a run that was not read from these files, or is one of them."""
    target = out / FILE_NAME
    if not target.exists():
        return
    try:
        written = list(read_run(out))
        is_same = all((stored.log or {}).get("file") in files for stored in written)
        if not is_same and target.resolve() not in {entry.log.path.resolve() for entry in logs}:
            is_same = {_identity(stored) for stored in written} <= set(_identities(logs))
    except (RunError, LogError):
        is_same = False
    if not is_same:
        raise RunError(f"{target} holds another run; choose another --out")


def _identities(logs: Sequence[RecognisedLog]) -> Iterator[tuple[str, str]]:
    """Yield what identifies the episodes of logs that were played by Etude."""
    for entry in logs:
        for episode in entry.format.episodes(entry.log):
            if episode.stored is not None:
                yield _identity(episode.stored)


def _identity(stored: Stored) -> tuple[str, str]:
    return stored.key, stored.episode.episode_id


class _Writer:
    """Rows of episodes, with ids and sample numbers that are unique in the run."""

    def __init__(self, tools: list[dict[str, Any]], progress: Progress) -> None:
        self._tools, self._progress = tools, progress
        self._ids: Counter[str] = Counter()
        self._samples: Counter[tuple[str, str]] = Counter()

    def write(self, source: RecognisedLog, target: IO[bytes]) -> FileSummary:
        """Write the episodes of a file and return their summary."""
        summary = FileSummary(str(source.log.path), source.name)
        try:
            for number, episode in enumerate(source.format.episodes(source.log)):
                try:
                    stored = self._stored(episode, source, number)
                    target.write(row_and_line(row_of(stored), stored.episode)[1])
                except (LogError, UnwritableRow) as error:
                    summary.skip(f"{source.log.path}, {error}")
                else:
                    summary.add(stored)
                if (number + 1) % REPORTED == 0:
                    self._progress(f"annotating {source.log.path}", number + 1, 0)
        except LogError as error:
            summary.skip(str(error))
        for problem in source.log.broken:
            summary.skip(problem)
        return summary

    def _stored(self, episode: LogEpisode, source: RecognisedLog, number: int) -> Stored:
        if episode.stored is not None:
            return annotated_again(episode.stored)
        if not episode.tools:
            episode.tools = self._tools
        stem = source.log.path.stem
        task_id = episode.task_id or (f"{stem}/{number}" if number else stem)
        agent = episode.agent or "unknown"
        first_id = episode.episode_id or task_id
        about = {"format": source.name, "file": str(source.log.path)}
        repeated, sample = self._ids[first_id], self._samples[agent, task_id]
        names = {
            "task_id": task_id,
            "episode_id": f"{first_id}-{repeated + 1}" if repeated else first_id,
            "agent": agent,
        }
        stored = stored_episode(episode, about, names, sample)
        self._ids[first_id] += 1
        self._samples[agent, task_id] += 1
        return stored


@contextmanager
def _replacement(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that replaces ``path`` when the block ends without an error, and else leaves nothing behind."""
    created = [folder for folder in path.parents if not folder.exists()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise RunError(f"cannot write to {path.parent}: {error.strerror}; choose another --out") from error
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        for folder in created:
            with suppress(OSError):
                folder.rmdir()
        raise
