"""One row as it was read: typed access to its columns, each error with the row's place and the remedy."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from .....errors import RowError
from ..instance import Instance, changed_files
from .diffs import is_diff

REPO = re.compile(r"[\w.-]+/[\w.-]+")
_COMMIT = re.compile(r"[0-9a-f]{7,40}\^?")
_PYTHON = (".py", ".pyi", ".pyx")
_IMAGES = ("image", "image_name", "docker_image")
NO_LABELS = "no FAIL_TO_PASS and PASS_TO_PASS; the labels are measured alone"
NO_TEST_PATCH = "no test_patch; no test decides without one"
NO_ENVIRONMENT = "no environment in the row; the version's own must be known"


def not_python(row: Mapping[str, Any]) -> str:
    """Return why a row is left out: its language, or its patches, are not Python's; empty when they are."""
    language = row.get("language")
    if isinstance(language, str) and language:
        return "" if language.lower() in ("python", "py") else "not Python"
    patches = [row.get(name) for name in ("patch", "test_patch")]
    paths = [path for patch in patches if isinstance(patch, str) for path in changed_files(patch)]
    return "" if not paths or any(path.endswith(_PYTHON) for path in paths) else "not Python"


@dataclass(frozen=True)
class Format:
    """A public row format. ``etude.rows`` is the entry-point group for formats of third parties."""

    recognises: Callable[[Mapping[str, Any]], bool]
    """Return whether a row has this format's columns. At most one format recognises a row."""
    read: Callable[[Mapping[str, Any], str], Instance]
    """Return the instance of a row; the text is its place, such as ``rows.jsonl:7``. Raises RowError."""
    leaves_out: Callable[[Mapping[str, Any]], str] = not_python
    """Return why a row cannot become a task here, such as ``not Python``; empty when it may."""


class Row:
    """A row with its place. Each method raises RowError when a column is missing or holds something else."""

    def __init__(self, values: Mapping[str, Any], place: str, format_name: str) -> None:
        self.values, self.place, self.format = values, place, format_name

    def error(self, problem: str, remedy: str) -> RowError:
        """Return the error about this row."""
        return RowError(f"{self.place} {problem}; {remedy}")

    def text(self, name: str) -> str:
        """Return a column of text that a task cannot do without."""
        value = self.values.get(name)
        if value is None or value == "":
            raise self.error(f"has no {name}", f"{self.format} rows need it: add it or remove the row")
        if not isinstance(value, str):
            raise self.error(f"has a {name} that is not text but {type(value).__name__}", "write it as text")
        if not value.strip():
            raise self.error(f"has an empty {name}", f"{self.format} rows need it: add it or remove the row")
        return value

    def optional(self, *names: str) -> str:
        """Return the first of these columns that holds text or a number, as text; empty when none does."""
        for name in names:
            value = self.values.get(name)
            if isinstance(value, str | int | float) and not isinstance(value, bool) and str(value).strip():
                return str(value)
        return ""

    def repo(self) -> str:
        """Return the repository as ``owner/name``."""
        text = self.text("repo")
        if not REPO.fullmatch(text):
            raise self.error(f"names the repository {text!r}", "write it as owner/name")
        return text

    def commit(self, name: str = "base_commit") -> str:
        """Return a commit: 7 to 40 hexadecimal digits, ``^`` behind them for the commit's parent."""
        text = self.text(name).lower()
        if not _COMMIT.fullmatch(text):
            raise self.error(f"has the {name} {text[:60]!r}", "write 7 to 40 hexadecimal digits of the commit")
        return text

    def patch(self, name: str = "patch") -> str:
        """Return a git diff that ends with a newline."""
        text = self.text(name)
        if not is_diff(text):
            raise self.error(f"has a {name} that is not a git diff", "write it as git diff does, from 'diff --git' on")
        return text if text.endswith("\n") else text + "\n"

    def test_patch(self) -> str:
        """Return the git diff of the tests; empty when the row has none."""
        return self.patch("test_patch") if self.optional("test_patch") else ""

    def labels(self, *names: str) -> tuple[str, ...]:
        """Return the tests that the first of these columns lists: a list, or a list written as JSON or Python text."""
        for name in names:
            value = self.values.get(name)
            if value is None or value == "":
                continue
            items = _list(value)
            if items is None or not all(isinstance(item, str) for item in items):
                raise self.error(f"has a {name} that is not a list of tests", "write it as a JSON list of text")
            return tuple(str(item) for item in items)
        return ()

    def date(self, name: str = "created_at") -> str:
        """Return a date as ISO 8601 in UTC, from text, a datetime, or seconds or milliseconds since 1970."""
        value = self.values.get(name)
        if value is None or value == "":
            return ""
        try:
            moment = _moment(value)
        except (ValueError, OverflowError, OSError) as error:
            raise self.error(f"has the {name} {str(value)[:40]!r}", "write it as 2024-06-30T12:00:00Z") from error
        return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def image(self) -> str:
        """Return the container image that the row offers; empty when it offers none."""
        return self.optional(*_IMAGES)


def lacks(instance_labels: Sequence[str], test_patch: str, environment: bool, image: str) -> list[str]:
    """Return one line for each of labels, test patch and environment that a row does not give."""
    lines = [] if instance_labels else [NO_LABELS]
    lines += [] if test_patch else [NO_TEST_PATCH]
    if not environment:
        lines.append(f"{NO_ENVIRONMENT} (its container image is not used)" if image else NO_ENVIRONMENT)
    return lines


def _list(value: Any) -> Sequence[object] | None:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            try:
                value = ast.literal_eval(value)
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                return None
    return value if isinstance(value, list | tuple) else None


def _moment(value: object) -> datetime:
    if isinstance(value, datetime):
        moment = value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        moment = datetime.fromtimestamp(value / 1000 if abs(value) > 1e11 else value, UTC)
    else:
        moment = datetime.fromisoformat(str(value).strip())
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
