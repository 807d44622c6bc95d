"""What ``etude generate`` asks of a curriculum: which candidates to try, and which tasks to keep."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from ...environments.snapshots import Snapshot
from ...environments.tasks.static_features import task_features
from ...errors import EtudeError, NotApplicable, Rejected
from ...models import DEFAULT_ENVIRONMENT
from ..base import Candidate, Generator, Rejection
from ..knob_parsing import parse_knobs, select_knobs
from ..machines.records import Proposals
from ..model_endpoint import AsksModel
from ..output.publish import Row
from ..validation.assembly import task_id
from .band import MEDIUM, Band
from .item_response import Fit
from .ladder import ladder
from .plan import Plan, make_plan
from .play_log import read_play_log
from .priors import vector

_GENERATORS = Path(__file__).parents[1]
OUTSIDE_BAND = "difficulty"
"""Reason of a task that ``--difficulty`` leaves out."""


@dataclass(frozen=True)
class Source:
    """Where candidates come from: a generator with its knobs, and how many are asked of it."""

    maker: Generator
    """The generator."""
    knobs: Any
    """Its knobs."""
    count: int
    """Number of candidates to ask for on each Snapshot."""


@dataclass(frozen=True)
class Selection:
    """Sources of candidates, and the difficulty that tasks must have."""

    sources: Sequence[Source]
    """Where candidates come from, in the order of the rows."""
    seed: int
    """Seed of the generators."""
    band: Band | None = None
    """Difficulties that tasks must have; None: any."""
    plan: Plan | None = None
    """The curriculum; None without one."""
    outgrown: frozenset[str] = frozenset()
    """Ids of played tasks that are not tried again."""

    @property
    def request(self) -> dict[str, str]:
        """Return what identifies the selection among the arguments of a task set."""
        parts = {"difficulty": str(self.band) if self.band else "", "curriculum": self.plan.digest if self.plan else ""}
        return {name: text for name, text in parts.items() if text}

    @property
    def asks_model(self) -> bool:
        """Return whether a generator asks a language model."""
        makers = (source.maker for source in self.sources)
        return any(isinstance(maker, AsksModel) and maker.endpoint is not None for maker in makers)

    def candidates(self, snapshot: Snapshot) -> Proposals:
        """Return the candidates to try on a Snapshot, and why generators do not fit it or failed.

        In a curriculum, sources that have more give what others lack, and no place in the code is proposed twice.
        Raises what a generator raises on purpose, such as an LLMError; any other exception is a defect of it alone.
        """
        proposed: set[tuple[str, str]] = set()
        result = Proposals()
        streams = [self._guarded(source, snapshot, proposed, result) for source in self.sources]
        batches = [list(islice(stream, source.count)) for source, stream in zip(self.sources, streams, strict=True)]
        if self.plan is not None:
            missing = sum(source.count for source in self.sources) - sum(map(len, batches))
            for source, stream, batch in zip(self.sources, streams, batches, strict=True):
                if len(batch) == source.count:  # it may have more
                    batch += islice(stream, missing)
                    missing -= len(batch) - source.count
        result.candidates.extend(candidate for batch in batches for candidate in batch)
        return result

    def within_band(self, rows: Sequence[Row]) -> list[Row]:
        """Return the same rows; a task of another difficulty than asked for is rejected."""
        return [self._checked(row) for row in rows] if self.band else list(rows)

    def _guarded(
        self, source: Source, snapshot: Snapshot, proposed: set[tuple[str, str]], result: Proposals
    ) -> Iterator[Candidate]:
        """Yield the candidates of a source up to where it does not fit or fails, and add the reason to ``result``."""
        place = f"{source.maker.name} on {snapshot.name} {snapshot.version}"
        try:
            yield from self._of(source, snapshot, proposed)
        except NotApplicable as reason:
            result.unfit[place] = str(reason)
        except MemoryError:
            raise
        except Exception as error:
            if isinstance(error, EtudeError) and not isinstance(error, Rejected):  # only validation may reject
                raise
            result.failed[place] = _described(error)

    def _of(self, source: Source, snapshot: Snapshot, proposed: set[tuple[str, str]]) -> Iterator[Candidate]:
        for candidate in source.maker.candidates(snapshot, self.seed, source.knobs):
            place = candidate.generator.name, candidate.entity
            if self.plan is None:
                yield candidate
            elif place not in proposed and task_id(snapshot, candidate) not in self.outgrown:
                proposed.add(place)
                yield candidate

    def _checked(self, row: Row) -> Row:
        if row.task is None or self.band is None:
            return row
        fit = self.plan.fit if self.plan else Fit()
        rate = fit.failure_rate(vector(task_features(row.task)), row.task.task_id)
        if rate in self.band:
            return row
        detail = f"{row.task.task_id} is expected to fail in {rate:.0%} of the tries, outside {self.band}"
        return replace(row, task=None, rejection=Rejection(OUTSIDE_BAND, detail))


def _described(error: Exception) -> str:
    """Return the type, the message and the place of an exception, on one line without folders of this machine."""
    frames = traceback.extract_tb(error.__traceback__)
    frame = [frame for frame in frames if _GENERATORS in Path(frame.filename).parents][-1]
    path = Path(frame.filename).relative_to(_GENERATORS.parent).as_posix()
    return f"{type(error).__name__} at {path}:{frame.lineno}: {' '.join(str(error).split())}".rstrip(": ")


def select(
    makers: Sequence[Generator],
    knobs: Mapping[str, Any],
    *,
    count: int,
    seed: int,
    difficulty: str = "",
    runs: Path | None = None,
) -> Selection:
    """Return where candidates come from: each generator with the user's knobs, or the plan that ``runs`` lead to.

    Raises GeneratorError for a difficulty and for runs that cannot be read, RunError for files of a run.
    """
    band = Band.read(difficulty) if difficulty else None
    if runs is None:
        every = [Source(maker, parse_knobs(maker.knobs, select_knobs(maker.knobs, knobs)), count) for maker in makers]
        return Selection(every, seed, band)
    log = read_play_log(runs, DEFAULT_ENVIRONMENT)
    able = {maker.name: maker for maker in makers if not isinstance(maker, AsksModel) or maker.endpoint}
    ladders = {name: ladder(name, maker.knobs, select_knobs(maker.knobs, knobs)) for name, maker in able.items()}
    plan = make_plan(ladders, log, band or MEDIUM, count, seed)
    sources = []
    for item in plan.requests:
        maker = able[item.setting.generator]
        sources.append(Source(maker, parse_knobs(maker.knobs, item.setting.knobs), item.count))
    return Selection(sources, seed, band, plan, frozenset(plan.outgrown()))
