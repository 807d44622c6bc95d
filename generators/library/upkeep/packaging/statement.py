"""The statement of a packaging task: what someone who builds or installs the project sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ....base import StatementContext
from ....statements.behaviours import bullets
from .faults import Fault


@dataclass(frozen=True)
class PackagingReport:
    """The symptoms of some faults, and what is checked."""

    symptoms: Sequence[str]
    files: Sequence[str]  # the configuration files that may be changed
    settings: str | None  # the copy of pytest's own settings

    def render(self, context: StatementContext) -> str:
        """Return the symptoms, the files to correct and the checks."""
        files = ", ".join(f"`{path}`" for path in self.files)
        paragraphs = [
            f"# Building or installing {context.package} goes wrong",
            "A recent change to this code base, the package named above, put "
            f"{'a mistake' if len(self.symptoms) == 1 else f'{len(self.symptoms)} mistakes'} into its packaging "
            f"configuration ({files}). Its code is right. This is what people see:\n\n{bullets(self.symptoms)}",
            f"Correct the configuration in {files}. Everything else that it declares is right and has to stay.",
            "## What is checked\n\nThere is no network and no build tool here, so nothing is built: the checks read "
            "the configuration files and compare what a build would declare and ship (backend and the requirement that "
            "provides it, Python versions, names of dependencies, commands and whether they can be loaded, readme, "
            "version source, packages, modules, data files) with the last good release. Any way of writing it that "
            "comes to the same is right. The tests of the package have to pass too.",
        ]
        if self.settings:
            paragraphs.append(f"pytest reads its settings from `{self.settings}`, a copy that is not to be changed.")
        return "\n\n".join(paragraphs) + "\n"


def symptom(fault: Fault, python: str) -> str:
    """Return what a user sees of a fault, in one sentence or two."""
    before, after = fault.before, fault.after
    if fault.fact == "commands":
        return _command_symptom(before, after or {})
    missing = _listed(before, after)
    return {
        "build backend": f"`pip wheel .` stops before the build, since the backend `{after}` cannot be imported.",
        "build requirement": f"`pip wheel .` in an isolated environment cannot import the build backend: none of the "
        f"build's requirements that can be installed provides it{_instead(fault)}.",
        "python": f"pip refuses to install the package on Python {python}: it requires a different Python. What "
        f"the package requires has to admit exactly these of the versions up to 3.14: {', '.join(before)}.",
        "dependencies": f"pip cannot find the dependency `{fault.new}`; there is no distribution of that name.",
        "readme": "The build stops, since the file that is named as the readme does not exist.",
        "version source": f"The build cannot find the version of the package at `{fault.new}`.",
        "packages": f"Packages are missing from the wheel: {missing}.",
        "shipped folders": f"The build ships no such folder: `{fault.new}`."
        if fault.new
        else f"The wheel lacks {missing}.",
        "modules": f"Modules are missing from the wheel: {missing}.",
        "data files": f"Files are missing from the wheel: {missing}.",
    }[fault.fact]


def _command_symptom(before: dict[str, str], after: dict[str, str]) -> str:
    missing = sorted(before.keys() - after.keys())
    if missing:
        return f"After an installation, there is no command {', '.join(f'`{name}`' for name in missing)}."
    name = next(name for name in sorted(before) if before[name] != after[name])
    return f"After an installation, the command `{name}` fails at once: `{after[name]}` cannot be loaded."


def _instead(fault: Fault) -> str:
    return f" (`{fault.new}` is not known to the index)" if fault.new else ""


def _listed(before: Any, after: Any) -> str:
    if not isinstance(before, list):
        return ""
    missing = [item for item in before if item not in (after or [])]
    names = [f"`{name}`" for name in missing[:8]]
    return ", ".join(names) + (f" and {len(missing) - 8} more" if len(missing) > 8 else "")
