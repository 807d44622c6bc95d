"""What can go wrong when a snapshot is made: one type each, one line, with the remedy."""

from __future__ import annotations


class SnapshotError(Exception):
    """A source could not be made runnable; every subclass says at which step."""


class BadSource(SnapshotError):
    """The source's name is malformed, or the source holds what a source may not."""


class SourceNotFound(SnapshotError):
    """No such package version, repository, revision, folder or archive; or its content is another than recorded."""


class BrokenArchive(SnapshotError):
    """The archive cannot be read, or would write outside its own folder."""


class BadOptions(SnapshotError):
    """An option or a recipe file that cannot be understood."""


class UnsupportedPython(SnapshotError):
    """The interpreter asked for is not here, or the project refuses it."""


class BuildFailed(SnapshotError):
    """The project's own build, or a set-up command, failed; carries the last lines of its log."""


class DependencyFailed(SnapshotError):
    """A dependency cannot be resolved or installed; carries the last lines of pip's log."""


class NoTests(SnapshotError):
    """The source holds no tests."""


class CollectionFailed(SnapshotError):
    """pytest could not collect a single test."""


class NonePassing(SnapshotError):
    """Tests ran, and none of them passes every time."""


class SuiteTimeout(SnapshotError):
    """The suite did not end in time; names the last test that started."""


class WrongModule(SnapshotError):
    """The tests import another copy of the package than the one in the tree."""


class PatchError(SnapshotError):
    """A patch that does not apply."""


def last_lines(log: str | bytes, count: int = 8) -> str:
    """The end of a log on one line: what a person needs to see of it."""
    text = log.decode("utf-8", "replace") if isinstance(log, bytes) else log
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-count:]) or "(no output)"
