"""Measure what hints are worth, by playing on from before an error turn, with its hint and without.

The episode's past is played once more, then every continuation starts in a fork of it. Whether the hint is said is the
only thing that differs, so the difference in success is what the hint did.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from ... import client
from ...errors import LLMError, RunError
from ...hints.write.hint_choice import import_path
from ...llm import LLM, shown
from ..agents import scripted as agents
from ..agents.openai import ModelAgent, ModelOptions
from ..drill.tasks import DrillTasks
from ..rng import stream
from ..runs.play import Players, Progress, Tasks, player_for
from ..runs.reader import Stored, stored_episodes
from .continuations import Continuing, GoesOn, Seat
from .fork_points import Place, chosen_places
from .hint_candidates import Text, add_texts, digest
from .hint_policy import Policy, always, draw, first, policy_name, uniform
from .log import Trial, TrialLog
from .report import CausalReport, report, write_hints


async def measure_hints(
    run: Path,
    agent_name: str,
    *,
    k: int = 8,
    out: Path,
    tasks: Tasks | None = None,
    url: str | None = None,
    backend: str = "auto",
    sample: int | None = None,
    choose: str | Policy = "first",
    texts: Sequence[Text] = (),
    seed: int = 0,
    jobs: int = 1,
    model: ModelOptions = ModelOptions(),
    agent: GoesOn | None = None,
    players: Players | None = None,
    progress: Progress = lambda phase, done, total: None,
) -> CausalReport:
    """Play ``k`` continuations with a hint and ``k`` without, from every error turn of a run that has a hint.

    ``sample`` takes so many of them, drawn by ``seed``. ``choose`` says which hint: the ``first``, one drawn
    ``uniform``, the one of a name where there is it (else the first), or one drawn by a Policy (an object, or
    ``MODULE:ATTRIBUTE``); ``texts`` are
    candidates behind an error turn's own hints. What ``out`` holds is not played again. ``agent`` and ``players`` take
    the place of ``agent_name``'s agent and of the sessions of ``tasks`` (default: drills, when the run is one) or
    ``url``. Raises RunError, UnknownName or LLMError before anything is written.
    """
    episodes = stored_episodes(run)
    add_texts(episodes, texts)
    tasks = tasks if tasks is not None else _drills(episodes)
    places = chosen_places(episodes, sample, seed)
    llm = model.open(agent_name.partition(":")[2], jobs) if agent is None and agents.asks_model(agent_name) else None
    try:
        played = Continuing(
            tasks=tasks,
            open_player=players or (lambda: player_for(tasks, url, backend)),
            make_agent=agent or agent_that_goes_on(agent_name, llm, model.tool_format),
            policy=policy_of(choose, places),
            seed=seed,
            llm=llm,
        )
        where: dict[str, Any] = {"agent": agent_name, "url": url and _address(url), "seed": seed}
        where |= {
            "sandbox": None if url else backend,
            "choose": choose if isinstance(choose, str) else policy_name(choose),
        }
        where |= {"texts": digest(texts)}
        log = TrialLog(out, where | (model.settings(agent_name.partition(":")[2]) if llm is not None else {}))
        for place in places:
            tasks.by_id(place.stored.episode.task_id)
        with log:
            trials = await _play_all(played, log, places, k, jobs, progress)
    finally:
        if llm is not None:
            await llm.close()
    found = report(episodes, places, trials, str(out))
    write_hints(out, places, found, learned=not isinstance(choose, str) or ":" in choose)
    return found


def policy_of(choose: str | Policy, places: Sequence[Place]) -> Policy:
    """How a hint is chosen at these places. Raises RunError."""
    if not isinstance(choose, str):
        return choose
    if choose in ("first", "uniform"):
        return {"first": first, "uniform": uniform}[choose]
    there = dict.fromkeys(arm for place in places for arm in place.hints())
    if choose in there:
        return always(choose)
    if ":" in choose and not choose.startswith("text:"):
        return cast(Policy, import_path(choose))
    raise RunError(f"--choose {choose!r} is neither first, uniform, MODULE:POLICY nor one of {', '.join(there)}")


def agent_that_goes_on(name: str, llm: LLM | None, tool_format: str) -> GoesOn:
    """The registered agent, if it can begin in mid-episode. Raises UnknownName and RunError."""
    base, _, variant = name.partition(":")
    factory: Callable[..., agents.Agent] = agents.AGENTS.load(base)
    if base == "openai":
        if llm is None:
            raise LLMError(f"the agent {name} asks a model: there is none to ask")
        return lambda task, *, past, told, seed: ModelAgent(llm, tool_format, past, told)
    taken = inspect.signature(factory).parameters
    if not {"past", "told", "seed"} <= set(taken):
        raise RunError(f"the agent {base} cannot go on from the middle of an episode: take openai:MODEL or noisy")
    return lambda task, *, past, told, seed: factory(task, variant, past=past, told=told, seed=seed)


def _address(url: str) -> str:
    """Raises RunError for what is no address of a server."""
    try:
        return shown(client.Client(url).url)
    except ValueError as error:
        raise RunError(str(error)) from None


def _drills(episodes: Sequence[Stored]) -> DrillTasks:
    """Raises RunError."""
    other = [one.episode.task_id for one in episodes if not one.episode.task_id.startswith("drill-")]
    if other:
        raise RunError(f"{other[0]!r} is a task of a set: name its folder with --tasks")
    return DrillTasks()


async def _play_all(
    run: Continuing, log: TrialLog, places: Sequence[Place], k: int, jobs: int, progress: Progress
) -> list[Trial]:
    """Every wanted trial, those of earlier runs too; each is written when it is over."""
    wanted = {place.name: _wanted(run, place, k) for place in places}
    total, gate, new = sum(map(len, wanted.values())), asyncio.Semaphore(jobs), dict[tuple[str, str, int], Trial]()
    before = sum(trial.key in log.done for planned in wanted.values() for trial in planned)
    progress("trials", before, total)

    async def one(place: Place) -> None:
        async with gate, AsyncExitStack() as stack:
            seat = Seat(run, place, stack)
            for planned in wanted[place.name]:
                if planned.key not in log.done:
                    trial = await seat.play(planned)
                    log.add(trial)
                    new[trial.key] = trial
                    progress("trials", before + len(new), total)

    try:
        async with asyncio.TaskGroup() as group:
            for place in places:
                group.create_task(one(place))
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    found = {**log.done, **new}
    return [found[planned.key] for plan in wanted.values() for planned in plan]


def _wanted(run: Continuing, place: Place, k: int) -> list[Trial]:
    """The trials of a place as they are to be played, with and without by turns. The draw of a hint is seeded."""
    hints, context, episode = place.hints(), place.context(), place.stored.episode
    plain = Trial(
        place=place.name,
        number=0,
        episode_id=episode.episode_id,
        task_id=episode.task_id,
        error=place.index,
        kind=place.error.kind,
        site=place.error.site,
        context=context,
    )
    chances = run.policy(context, tuple(hints))
    found = []
    for number in range(k):
        arm = draw(chances, stream(run.seed, place.seeded, f"draw {number}").random())
        said = replace(plain, number=number, arm=arm, arms=tuple(hints), propensity=chances[arm])
        found += [said, replace(plain, number=number)]
    return found
