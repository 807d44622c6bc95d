"""Measurement of what hints are worth: episodes are continued from before an error turn, with its hint and without.

The past is played once more, then every continuation starts in a fork of it. Whether the hint is given is the only
difference, so the difference in success is the effect of the hint.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from ... import client
from ...errors import LLMError, RunError
from ...hints.write.hint_choice import import_path
from ...llm import LLM, shown
from .. import agents
from ..agents.openai import ModelAgent, ModelOptions
from ..rng import stream
from ..runs.parallel import at_once
from ..runs.play import Players, holds, made_tasks, player_for
from ..runs.reader import Progress, Stored, stored_episodes
from ..tasks.task_set import Tasks
from .continuations import AgentFactory, Continuations, Measurement
from .fork_points import Place, chosen_places
from .hint_candidates import Text, add_texts, digest
from .hint_policy import Policy, always, draw, first, policy_name, uniform
from .report import CausalReport, report, write_hints
from .trials import Trial, TrialLog


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
    agent: AgentFactory | None = None,
    players: Players | None = None,
    progress: Progress = lambda phase, done, total: None,
) -> CausalReport:
    """Play ``k`` continuations with a hint and ``k`` without, from every error turn of a run that has a hint.

    ``sample`` takes that many error turns, drawn by ``seed``. ``choose`` says which hint is given: the ``first``, one
    drawn ``uniform``, the one with this name where there is one (else the first), or one drawn by a Policy (an object,
    or ``MODULE:ATTRIBUTE``). ``texts`` are further candidates. What ``out`` holds is not played again. ``agent`` and
    ``players`` replace ``agent_name``'s agent and the sessions of ``tasks`` (default: the tasks that the
    run's environment makes itself) or ``url``. Raises RunError, UnknownName or LLMError before anything is written.
    """
    episodes = stored_episodes(run, progress)
    add_texts(episodes, texts)
    tasks = tasks_of_episodes(episodes) if tasks is None else tasks
    places = chosen_places(episodes, sample, seed)
    llm = model.open(agent_name.partition(":")[2], jobs) if agent is None and agents.asks_model(agent_name) else None
    try:
        measurement = Measurement(
            tasks=tasks,
            open_player=players or partial(player_for, tasks, url, backend),
            make_agent=agent or continuing_agent(agent_name, llm, model.tool_format),
            policy=policy_of(choose, places),
            seed=seed,
            llm=llm,
        )
        settings: dict[str, Any] = {"agent": agent_name, "url": url and _address(url), "seed": seed}
        settings |= {"sandbox": None if url else backend, "texts": digest(texts)}
        settings |= {"choose": choose if isinstance(choose, str) else policy_name(choose)}
        log = TrialLog(out, settings | (model.settings(agent_name.partition(":")[2]) if llm is not None else {}))
        for place in places:
            tasks.by_id(place.stored.episode.task_id)
        with log:
            trials = await _play_all(measurement, log, places, k, jobs, progress)
    finally:
        if llm is not None:
            await llm.close()
    result = report(episodes, places, trials, str(out))
    write_hints(out, places, result, learned=not isinstance(choose, str) or _is_path(choose))
    return result


def tasks_of_episodes(episodes: Sequence[Stored]) -> Tasks:
    """Return the tasks of an environment that makes those of the episodes itself. Raises RunError without one."""
    task_ids = {stored.episode.task_id for stored in episodes}
    for tasks in made_tasks():
        if all(holds(tasks, task_id) for task_id in task_ids):
            return tasks
    raise RunError(f"the tasks of the run, such as {min(task_ids)!r}, are those of a set; name its folder with --tasks")


def policy_of(choose: str | Policy, places: Sequence[Place]) -> Policy:
    """Return how a hint is chosen at these places. Raises RunError."""
    if not isinstance(choose, str):
        return choose
    if choose in ("first", "uniform"):
        return {"first": first, "uniform": uniform}[choose]
    names = dict.fromkeys(name for place in places for name in place.hints())
    if choose in names:
        return always(choose)
    if _is_path(choose):
        return cast(Policy, import_path(choose))
    raise RunError(f"--choose must be first, uniform, MODULE:POLICY or one of {', '.join(names)}, got {choose!r}")


def _is_path(choose: str) -> bool:
    return ":" in choose and not choose.startswith("text:")


def continuing_agent(name: str, llm: LLM | None, tool_format: str) -> AgentFactory:
    """Return a factory of the registered agent, which must be able to continue an episode.

    Raises UnknownName, RunError for an agent that cannot, and LLMError when a model is needed and not given.
    """
    base, _, variant = name.partition(":")
    factory: Callable[..., agents.Agent] = agents.AGENTS.load(base)
    if agents.asks_model(base):
        if llm is None:
            raise LLMError(f"the agent {name} asks a model; give one")
        return lambda task, *, past, hint, seed: ModelAgent(llm, tool_format, past, hint)
    if not {"past", "hint", "seed"} <= set(inspect.signature(factory).parameters):
        raise RunError(f"the agent {base} cannot continue an episode from the middle; take openai:MODEL or noisy")
    return lambda task, *, past, hint, seed: factory(task, variant, past=past, hint=hint, seed=seed)


def _address(url: str) -> str:
    """Return the address of a server as it is recorded. Raises RunError."""
    try:
        return shown(client.Client(url).url)
    except ValueError as error:
        raise RunError(str(error)) from None


async def _play_all(
    measurement: Measurement, log: TrialLog, places: Sequence[Place], k: int, jobs: int, progress: Progress
) -> list[Trial]:
    """Play the planned trials that earlier commands have not played, write each when it ends, and return them all."""
    plans = {place.name: _planned(measurement, place, k) for place in places}
    trials = dict(log.done)
    total = sum(map(len, plans.values()))
    done = sum(planned.key in trials for plan in plans.values() for planned in plan)
    progress("trials", done, total)

    async def one(place: Place) -> None:
        nonlocal done
        async with AsyncExitStack() as stack:
            continuations = Continuations(measurement, place, stack)
            for planned in plans[place.name]:
                if planned.key not in trials:
                    trial = await continuations.play(planned)
                    log.add(trial)
                    trials[trial.key] = trial
                    done += 1
                    progress("trials", done, total)

    await at_once(places, jobs, one)
    return [trials[planned.key] for plan in plans.values() for planned in plan]


def _planned(measurement: Measurement, place: Place, k: int) -> list[Trial]:
    """Return the trials to play at a place, with and without a hint alternately; the seed decides which hint."""
    hints, context, episode = place.hints(), place.context(), place.stored.episode
    without = Trial(
        place=place.name,
        number=0,
        episode_id=episode.episode_id,
        task_id=episode.task_id,
        error=place.index,
        kind=place.error.kind,
        site=place.error.site,
        context=context,
    )
    chances = measurement.policy(context, tuple(hints))
    plan = []
    for number in range(k):
        arm = draw(chances, stream(measurement.seed, place.seeded, f"draw {number}").random())
        with_hint = replace(without, number=number, arm=arm, arms=tuple(hints), propensity=chances[arm])
        plan += [with_hint, replace(without, number=number)]
    return plan
