"""Dependencies of one build: resolved together and installed; test requirements that cannot be had are dropped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from ....errors import DependencyFailed, SnapshotError
from ..project.dependency_guess import DependencyGuess
from . import environment
from .interpreter import Interpreter
from .packages import Resolution, failed_builds, resolve
from .uv_command import UvResult


@dataclass(frozen=True)
class Installed:
    """A finished installation: what was locked, and the test requirements that were not dropped."""

    resolution: Resolution
    tests: list[str]


@dataclass(frozen=True)
class Dependencies:
    """Resolver and installer of one build."""

    interpreter: Interpreter
    folder: Path
    """The virtual environment."""
    staging: Path
    """The folder for uv's input and output files."""
    progress: Callable[[str], None]
    notes: list[str]
    """Receives a line for each dropped requirement."""
    as_of: str = ""
    """Date (``2024-06-30``) after which no file of the package index is considered."""

    def refuse_parts_of_pytest(self, project: str, pytest: str) -> None:
        """Raise SnapshotError when pytest itself runs on ``project``.

        Its tests cannot run without a second copy of it, and that copy would show what a task removes.
        """
        if canonicalize_name(project) in self._resolve([f"pytest=={pytest}"]).locked:
            raise SnapshotError(f"pytest itself runs on {project}, so no task can be made of it; choose another source")

    def install(self, guess: DependencyGuess, tests: Sequence[str]) -> Installed:
        """Resolve and install ``guess.base`` and as many of ``tests`` as possible. Raises DependencyFailed."""
        self.progress("resolving dependencies")
        resolution, accepted = self._resolve_tests(guess.base, tests)
        if extra := guess.unmet(set(resolution.locked), accepted):
            self.notes.append(f"undeclared, found in the tests: {', '.join(extra)}")
            resolution, accepted = self._resolve_tests(guess.base, [*accepted, *extra])
        while True:
            lines = resolution.lines([guess.project])
            self.progress(f"installing {len(lines)} packages")
            result = environment.install(self.folder, self.interpreter, lines, self.staging, self.as_of)
            if result.ok:
                return Installed(resolution, accepted)
            culprits = self._culprits(failed_builds(result.log), guess, accepted, result)
            self.notes.extend(f"test requirement {text} dropped: it does not build" for text in culprits)
            resolution, accepted = self._resolve_tests(guess.base, [text for text in accepted if text not in culprits])

    def install_recipe(self, lines: Sequence[str]) -> None:
        """Install the locked requirements of a recipe. Raises DependencyFailed."""
        self.progress(f"installing {len(lines)} packages")
        result = environment.install(self.folder, self.interpreter, lines, self.staging, self.as_of)
        if not result.ok:
            raise DependencyFailed(f"a locked dependency cannot be installed: {result.error_text()}; {_REMEDY}")

    def _resolve(self, requirements: Sequence[str]) -> Resolution:
        return resolve(self.interpreter, requirements, self.staging, self.as_of)

    def _resolve_tests(self, base: Sequence[str], tests: Sequence[str]) -> tuple[Resolution, list[str]]:
        """Resolve everything together; a test requirement that cannot be resolved is dropped with a note."""
        try:
            return self._resolve([*base, *tests]), list(tests)
        except DependencyFailed:
            if not tests:
                raise
        resolution, accepted = self._resolve(base), list[str]()
        for text in tests:
            try:
                resolution = self._resolve([*base, *accepted, text])
                accepted.append(text)
            except DependencyFailed as error:
                self.notes.append(f"test requirement {text} dropped: {error}")
        return resolution, accepted

    def _culprits(self, failed: set[str], guess: DependencyGuess, tests: Sequence[str], result: UvResult) -> list[str]:
        """Return the test requirements that need a failed package. Raises DependencyFailed when the project does."""
        needed = set(self._resolve(guess.base).locked)
        culprits = [text for text in tests if failed & set(self._resolve([text]).locked)]
        if not failed or failed & needed or not culprits:
            names = ", ".join(sorted(failed & needed or failed)) or "a dependency"
            raise DependencyFailed(f"{names} cannot be installed: {result.error_text()}; {_REMEDY}")
        return culprits


_REMEDY = "install what its build needs, or use a package index that has it"
