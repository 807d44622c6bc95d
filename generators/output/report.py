"""The content of ``report.json``: what became of the candidates, and what that cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from ..machines.records import BuildCost
from ..rewording.reworded_rows import RewritingReport
from ..selection.apply import SelectionReport
from ..twins.renamed.renamed_rows import RenamedReport
from .publish import Row


def failed_text(place: str, error: str) -> str:
    """Return one line about a defect of a generator; ``place`` is "generator on package"."""
    return f"{place} failed, which is a defect of the generator ({error}); report it, or leave the generator out"


@dataclass
class Counts:
    """What became of some candidates."""

    candidates: int = 0  # proposals that were checked
    tasks: int = 0  # those that became tasks
    rejected: dict[str, int] = field(default_factory=dict)  # the others, by reason
    cpu_seconds: float = 0.0  # CPU time of their verdicts

    def add(self, row: Row) -> None:
        """Count one verdict."""
        self.candidates += 1
        self.cpu_seconds = round(self.cpu_seconds + row.cpu_seconds, 3)
        if row.rejection is None:
            self.tasks += 1
        else:
            self.rejected[row.rejection.reason] = self.rejected.get(row.rejection.reason, 0) + 1


@dataclass(kw_only=True)
class Report(Counts):
    """The content of ``report.json``, which adds ``yield``, the request and a detail per rejected candidate."""

    sources: list[str]  # sources as they were given
    generators: list[str]  # names of the generators
    seed: int  # the seed
    count: int  # most candidates per source and generator
    per_source: dict[str, Counts] = field(default_factory=dict)  # the same counts for each package
    per_generator: dict[str, Counts] = field(default_factory=dict)  # the same counts for each generator
    not_applicable: dict[str, str] = field(default_factory=dict)  # reasons by "generator on package"
    failed: dict[str, str] = field(default_factory=dict)  # defects of generators, by the same
    twins: dict[str, int] = field(default_factory=dict)  # impossible twins "made", and tasks without one by reason
    curriculum: dict[str, Any] = field(default_factory=dict)  # what `--curriculum` asked for, and why
    renamed: RenamedReport = field(default_factory=RenamedReport)  # renamed twins, and what was renamed for them
    rewriting: RewritingReport = field(default_factory=RewritingReport)  # statements in the words of a model
    selection: SelectionReport = field(default_factory=SelectionReport)  # splits, benchmarks, overlap
    seconds: float = 0.0  # wall time of this run
    proposal_cpu_seconds: float = 0.0  # CPU time in which this run proposed candidates
    builds: dict[str, BuildCost] = field(default_factory=dict)  # cost of the Snapshots that this run built

    def add_build(self, name: str, cost: BuildCost | None) -> None:
        """Add the cost of a build; None adds nothing."""
        if cost is not None:
            self.builds[name] = self.builds[name] + cost if name in self.builds else cost

    def row(self) -> dict[str, Any]:
        """Return the fields and the share of candidates that became tasks."""
        return {**asdict(self), "yield": round(self.tasks / self.candidates, 4) if self.candidates else 0.0}
