"""A model is asked for a hint at every error turn of a run; its texts are candidates for ``measure_hints``."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...errors import RunError
from ...hints.detect.annotate import transcript
from ...hints.write.llm_hints import OUTCOMES, HintCache, LLMHints, Made, secrets_of
from ...hints.write.prompting import Source
from ..agents.openai import ModelOptions
from ..drill.tasks import DrillTasks
from ..runs.play import Progress, Tasks
from ..runs.reader import Stored, stored_episodes
from .fork_points import Place, every_place
from .hint_candidates import Text, write_texts

CACHE_SUFFIX = ".answers"


@dataclass(frozen=True)
class AskedReport:
    """What became of the error turns of a run: of those ``reached``, some have a text ``written``, the others fell back
    to the template, counted in ``fell_back`` by why (``without_hint``: there was none to fall back to).

    ``cached`` answers were paid for earlier. ``unchecked`` texts are of tasks whose secrets are not at hand. ``ok``:
    there is an answer, good or not, for each error turn; what ``failed`` or was over ``budget`` is asked again by the
    next call.
    """

    error_turns: int
    reached: int
    written: int
    cached: int
    fell_back: dict[str, int]
    without_hint: int
    unchecked: int
    kinds: list[dict[str, Any]]
    usage: dict[str, float]
    out: str

    @property
    def ok(self) -> bool:
        return not (self.fell_back["failed"] or self.fell_back["budget"])

    def summary(self) -> str:
        """One line for a person."""
        fell = ", ".join(f"{number} {why}" for why, number in self.fell_back.items() if number) or "none"
        tokens = self.usage["prompt_tokens"] + self.usage["completion_tokens"]
        return (
            f"{self.written} texts for {self.reached} of {self.error_turns} error turns, {self.cached} answers kept "
            f"from before; back to the template: {fell} ({self.without_hint} had none); {self.usage['calls']:.0f} "
            f"calls, {tokens:.0f} tokens, {self.usage['usd']:.4f} USD, {self.usage['lost']:.0f} attempts lost; "
            f"in {self.out}"
        )


async def ask_for_hints(
    run: Path,
    model: str,
    *,
    out: Path,
    introspect: bool = False,
    name: str = "",
    tasks: Tasks | None = None,
    jobs: int = 1,
    options: ModelOptions = ModelOptions(),
    progress: Progress = lambda phase, done, total: None,
) -> AskedReport:
    """Write ``out``: a candidate text by ``model`` for each error turn that a hint could change, where it gave one.

    ``introspect`` asks as if the model were the agent. ``name`` is the texts' id (default: ``llm`` or ``introspect``).
    A text that gives away what the secret parts of its task say (``tasks``; a drill's are known) is left out. Answers
    are kept in ``out`` with ``.answers`` behind, so that none is paid for twice. Raises RunError, UnknownName or
    LLMError for what cannot be done at all; ``out`` is then as it was.
    """
    source: Source = "introspect" if introspect else "llm"
    episodes = stored_episodes(run)
    every = every_place(episodes)
    places = [place for place in every if place.is_reached]
    if not places:
        raise RunError(f"of {len(every)} error turns none has a turn that a hint could change")
    secrets = _secrets(episodes, tasks)
    async with options.open(model, jobs) as llm:
        cache = HintCache(_kept(out))
        # Where the model is served may change between two calls, and its answers stay what they were.
        settings = {"temperature": options.temperature, "max_tokens": options.max_tokens}
        asking = LLMHints(llm, source, cache, settings)
        made = await _ask_all(asking, places, secrets, jobs, progress)
        usage = asdict(llm.usage)
    texts = {}
    for place, one in zip(places, made, strict=True):
        if one.outcome == "accepted" and one.hint is not None:
            texts[place.name] = Text(one.hint.model_copy(update={"template": name}), place.name)
    about = {place.name: {"task_id": place.stored.episode.task_id, "kind": place.error.kind} for place in places}
    write_texts(out, [(text, {**about[where], "model": model}) for where, text in texts.items()])
    unchecked = sum(secrets[place.stored.episode.task_id] is None for place in places if place.name in texts)
    return _report(len(every), places, made, unchecked, usage, out)


async def _ask_all(
    asking: LLMHints, places: Sequence[Place], secrets: dict[str, list[str] | None], jobs: int, progress: Progress
) -> list[Made]:
    gate, done = asyncio.Semaphore(jobs), 0
    progress("hints", 0, len(places))

    async def one(place: Place) -> Made:
        nonlocal done
        async with gate:
            episode = place.stored.episode
            made = await asking.hint(
                place.error,
                transcript(episode),
                episode.tools,
                statement=episode.prompt,
                secrets=secrets[episode.task_id] or (),
            )
        done += 1
        progress("hints", done, len(places))
        return made

    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(one(place)) for place in places]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in running]


def _secrets(episodes: Sequence[Stored], tasks: Tasks | None) -> dict[str, list[str] | None]:
    """What may not be given away, by task; ``None`` where that is not known. Raises UnknownName."""
    drills = DrillTasks()
    found: dict[str, list[str] | None] = {}
    for task_id in dict.fromkeys(one.episode.task_id for one in episodes):
        known = tasks if tasks is not None else drills if task_id.startswith("drill-") else None
        found[task_id] = None if known is None else secrets_of(known.by_id(task_id))
    return found


def _kept(out: Path) -> Path:
    """The file of answers, there and writable before any is paid for. Raises RunError."""
    file = out.with_name(out.name + CACHE_SUFFIX)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    except OSError as error:
        raise RunError(f"cannot write to {file}: {error.strerror}; choose another --out") from None
    return file


def _report(
    error_turns: int, places: Sequence[Place], made: Sequence[Made], unchecked: int, usage: dict[str, Any], out: Path
) -> AskedReport:
    fallen = [outcome for outcome in OUTCOMES if outcome != "accepted"]
    kinds = []
    for kind in sorted({place.error.kind for place in places}):
        here = [one for place, one in zip(places, made, strict=True) if place.error.kind == kind]
        counts = Counter(one.outcome for one in here)
        row = {"kind": kind, "error_turns": len(here), "written": counts["accepted"]}
        kinds.append({**row, "cached": sum(one.cached for one in here), **{name: counts[name] for name in fallen}})
    whole = Counter(one.outcome for one in made)
    pairs = zip(places, made, strict=True)
    return AskedReport(
        error_turns=error_turns,
        reached=len(places),
        written=whole["accepted"],
        cached=sum(one.cached for one in made),
        fell_back={name: whole[name] for name in fallen},
        without_hint=sum(one.outcome != "accepted" and not place.error.hints for place, one in pairs),
        unchecked=unchecked,
        kinds=kinds,
        usage=usage,
        out=str(out),
    )
