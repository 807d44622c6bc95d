"""Hints written by a model for the error turns of a run: candidates for ``measure_hints``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...errors import RunError
from ...hints.detect.annotate import transcript
from ...hints.write.llm_hints import OUTCOMES, HintCache, LLMHints, WrittenHint, secrets_of
from ...hints.write.prompting import Source
from ..agents.openai import ModelOptions
from ..runs.parallel import at_once
from ..runs.play import holds, made_tasks
from ..runs.reader import Progress, Stored, stored_episodes
from ..runs.writer import answers_file_of
from ..tasks.task_set import Tasks
from .fork_points import Place, every_place
from .hint_candidates import Text, write_texts

_REJECTED = [outcome for outcome in OUTCOMES if outcome != "accepted"]


@dataclass(frozen=True)
class WritingReport:
    """Counts of the error turns of a run for which a hint was asked.

    ``reached`` are the error turns that a hint could change. ``written`` of them got a text; the others keep the
    template's hint and are counted in ``fell_back`` by reason, those without such a hint also in ``without_hint``.
    ``cached`` answers came from an earlier run. ``unchecked`` texts could not be searched for the secrets of their
    task, which is not known here.
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
        """Return whether every request was answered; running again repeats the others (``failed``, ``budget``)."""
        return not (self.fell_back["failed"] or self.fell_back["budget"])

    def summary(self) -> str:
        """Return one line for the user."""
        reasons = ", ".join(f"{number} {reason}" for reason, number in self.fell_back.items() if number) or "none"
        tokens = self.usage["prompt_tokens"] + self.usage["completion_tokens"]
        return (
            f"{self.written} texts for {self.reached} of {self.error_turns} error turns, {self.cached} from the cache; "
            f"back to the template: {reasons} ({self.without_hint} had none); {self.usage['calls']:.0f} calls, "
            f"{tokens:.0f} tokens, {self.usage['usd']:.4f} USD, "
            f"{self.usage['unanswered']:.0f} attempts without an answer; in {self.out}"
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
) -> WritingReport:
    """Ask ``model`` for a hint at each error turn that a hint could change, and write the accepted texts to ``out``.

    ``introspect`` asks as if the model were the agent. ``name`` is the texts' id (default: ``llm`` or ``introspect``).
    A text that gives away the secret parts of its task (in ``tasks``, or made by an environment) is left out. Answers
    are kept in ``out`` with ``.answers`` appended, so that none is paid for twice. Raises RunError, UnknownName or
    LLMError before ``out`` is changed.
    """
    source: Source = "introspect" if introspect else "llm"
    episodes = stored_episodes(run, progress)
    every = every_place(episodes)
    places = [place for place in every if place.is_reached]
    if not places:
        raise RunError(f"none of the {len(every)} error turns has a turn that a hint could change; play another run")
    secrets = _secrets(episodes, tasks)
    async with options.open(model, jobs) as llm:
        # Where the model is served may change between two calls, and its answers stay the same.
        settings = {"temperature": options.temperature, "max_tokens": options.max_tokens}
        writer = LLMHints(llm, source, HintCache(answers_file_of(out)), settings)
        answers = await _ask_all(writer, places, secrets, jobs, progress)
        usage = asdict(llm.usage)
    accepted = [
        (place, Text(answer.hint.model_copy(update={"template": name}), place.name))
        for place, answer in zip(places, answers, strict=True)
        if answer.outcome == "accepted" and answer.hint is not None
    ]
    about = {place.name: {"task_id": place.stored.episode.task_id, "kind": place.error.kind} for place in places}
    write_texts(out, [(text, {**about[text.place], "model": model}) for _, text in accepted])
    unchecked = sum(secrets[place.stored.episode.task_id] is None for place, _ in accepted)
    return _report(len(every), places, answers, unchecked, usage, out)


async def _ask_all(
    writer: LLMHints, places: Sequence[Place], secrets: dict[str, list[str] | None], jobs: int, progress: Progress
) -> list[WrittenHint]:
    async def one(place: Place) -> WrittenHint:
        episode = place.stored.episode
        return await writer.hint(
            place.error,
            transcript(episode),
            episode.tools,
            statement=episode.prompt,
            secrets=secrets[episode.task_id] or (),
        )

    return await at_once(places, jobs, one, lambda done: progress("hints", done, len(places)))


def _secrets(episodes: Sequence[Stored], tasks: Tasks | None) -> dict[str, list[str] | None]:
    """Return the texts that no hint may give away, by task; None for an unknown task. Raises UnknownName."""
    task_sets = made_tasks() if tasks is None else [tasks]
    secrets: dict[str, list[str] | None] = {}
    for task_id in dict.fromkeys(stored.episode.task_id for stored in episodes):
        task_set = tasks or next((candidate for candidate in task_sets if holds(candidate, task_id)), None)
        secrets[task_id] = None if task_set is None else secrets_of(task_set.by_id(task_id))
    return secrets


def _report(
    error_turns: int,
    places: Sequence[Place],
    answers: Sequence[WrittenHint],
    unchecked: int,
    usage: dict[str, Any],
    out: Path,
) -> WritingReport:
    pairs = list(zip(places, answers, strict=True))
    kinds = []
    for kind in sorted({place.error.kind for place in places}):
        of_kind = [answer for place, answer in pairs if place.error.kind == kind]
        counts = Counter(answer.outcome for answer in of_kind)
        row = {"kind": kind, "error_turns": len(of_kind), "written": counts["accepted"]}
        kinds.append(
            {**row, "cached": sum(answer.cached for answer in of_kind), **{name: counts[name] for name in _REJECTED}}
        )
    total = Counter(answer.outcome for answer in answers)
    return WritingReport(
        error_turns=error_turns,
        reached=len(places),
        written=total["accepted"],
        cached=sum(answer.cached for answer in answers),
        fell_back={name: total[name] for name in _REJECTED},
        without_hint=sum(answer.outcome != "accepted" and not place.error.hints for place, answer in pairs),
        unchecked=unchecked,
        kinds=kinds,
        usage=usage,
        out=str(out),
    )
