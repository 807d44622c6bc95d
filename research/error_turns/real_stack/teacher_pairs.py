"""The pairs that arms with replay-DPO learn from: a base's own episodes, and what scripted teachers say to its turns.

FOLDER/NAME of a base has, as `etude run` leaves them, its episodes; as `etude replay` does, pairs and a line for each
turn; and the account of both. Playing and asking are seeded. What all this took counts in no run: it is in the account.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch

from etude.client import Client
from etude.environments.runs.reader import stored_episodes
from etude.environments.runs.scores import summarise
from etude.environments.runs.writer import Journal
from etude.models import Episode
from etude.research.error_turns.driver import Refused
from etude.research.error_turns.real_stack import base_models, runs
from etude.research.error_turns.real_stack.scripted_teachers import Knows, Scripted, endpoint
from etude.research.error_turns.small_world.arms import Arm
from etude.research.error_turns.worlds.world import World
from etude.trainers.replay.external_models import open_teachers
from etude.trainers.replay.report import Report
from etude.trainers.replay.run import replay
from etude.trainers.replay.settings import GateSettings, ReplaySettings, TeacherSettings
from etude.trainers.rollouts.rollout import rollout
from etude.trainers.run.run_dir import read_json, write_json

EPISODES, AT_ONCE, SEED = 128, 32, 0
TEACHERS = {"teacher_90": 0.9, "teacher_85": 0.85, "teacher_80": 0.8}
"""How often each is right: what its script does, and what `etude replay` is told at first."""
AGENT, PAIRS, ACCOUNT, PART = "base", "pairs.jsonl", "account.json", ".part"


class Kept(NamedTuple):
    """An episode that the server keeps, and the token of its session. ``cut``: there was no room for its last turn."""

    episode: Episode
    token: str
    cut: bool


def pairs(world: World, base: Path, url: str, folder: Path, *, tasks: Sequence[str] = ()) -> Path:
    """The file of pairs of ``base``; it is made unless it is there. ``tasks`` (default: the world's own ``EPISODES``)
    are those of the server at ``url``. Raises Refused and ReplayError."""
    kept, digest = folder / base.name, base_models.digest(base)
    if not kept.exists():
        part = kept.with_name(kept.name + PART)
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        account = made(world, base, url, part, tasks or world.played(EPISODES))
        write_json(part / ACCOUNT, {"base": digest, **account})
        part.rename(kept)
    if read_json(kept / ACCOUNT)["base"] != digest:
        raise Refused(f"{kept} holds pairs of another base: remove it, or choose another --out")
    return kept / PAIRS


def made(world: World, base: Path, url: str, out: Path, tasks: Sequence[str]) -> dict[str, Any]:
    """Play and ask; the account. Raises Refused when no pair arises."""
    started = time.process_time()
    tokens, cut = play(world, base, url, out, tasks)
    if not tokens:
        raise Refused(f"the base {base.name} ended no episode within {world.max_ids} ids")
    playing = time.process_time()
    report = asyncio.run(ask(out, url, world.knows(), tokens))
    if not report.pairs:
        raise Refused(f"no turn of the base {base.name} became a pair ({report.why_none()}): {out} says more")
    seconds = {"playing": playing - started, "asking": time.process_time() - playing}
    return {"episodes": len(tokens), "cut": cut, "cpu_seconds": seconds, **report.row()}


# --- the base's episodes -----------------------------------------------------------------------------------------


def play(world: World, base: Path, url: str, out: Path, tasks: Sequence[str]) -> tuple[dict[str, str], int]:
    """Return an episode of each task, sampled as in training, into ``out``; their sessions' tokens, by their ids.

    Those that were cut are left out, since their last turn is not the base's; how many, comes second.
    """
    settings = {"url": url, "sandbox": None, "annotate": "state"}
    about = {"agent": AGENT, "cause": "", "sample": 0, "settings": settings, "usage": {}}
    with tempfile.TemporaryDirectory() as folder, Journal(out, AGENT, settings) as journal:
        trainer = runs.made(world, Arm(), 1e-9, SEED, base, url, Path(folder) / "run", 1).trainer
        trainer.model.eval()
        torch.manual_seed(SEED)
        try:
            played = [
                one
                for start in range(0, len(tasks), AT_ONCE)
                for one in trainer._runner.run(together(trainer, tasks[start : start + AT_ONCE]))
            ]
        finally:
            trainer.close()
        whole = [one for one in played if not one.cut]
        for one in whole:
            journal.add(about, one.episode)
        summary = summarise(AGENT, journal.rows, journal.rows, 1, str(out).removesuffix(PART))
    write_json(out / "summary.json", {**asdict(summary), "ok": summary.ok})
    return {one.episode.episode_id: one.token for one in whole}, len(played) - len(whole)


async def together(trainer: Any, tasks: Sequence[str]) -> list[Kept]:
    limits = trainer.parts.limits

    async def one(task_id: str) -> Kept:
        with trainer._batcher.playing():
            async with trainer._sessions.checkout() as client:
                named = {"task_id": task_id, "episode_id": f"{AGENT}-{task_id}"}
                found = await rollout(
                    named, trainer._chat, client, max_ids=limits.max_ids, max_turn_ids=limits.max_turn_ids
                )
                return Kept(await client.episode(), (await client.state()).token or "", found.truncated)

    return list(await asyncio.gather(*(one(task_id) for task_id in tasks)))


# --- what the teachers say ---------------------------------------------------------------------------------------


async def ask(run: Path, url: str, knows: Knows, tokens: Mapping[str, str]) -> Report:
    """`etude replay` of ``run``: every teacher at every turn, what it says executed from a fork of the episode."""
    episodes = [one.episode for one in stored_episodes(run)]
    prompts = {each.prompt: each.task_id for each in episodes}
    with ExitStack() as running:
        urls = {
            name: running.enter_context(endpoint(Scripted(name, accuracy, knows, prompts, SEED)))
            for name, accuracy in TEACHERS.items()
        }
        settings = settings_of(urls)
        teachers = open_teachers(settings)
        try:
            async with Client(url) as client:
                return await replay(episodes, teachers, client, run / PAIRS, settings=settings, tokens=tokens)
        finally:
            for teacher in teachers:
                await teacher.close()


def settings_of(urls: Mapping[str, str]) -> ReplaySettings:
    """The rules of consensus are the command's own; nothing is saved by not asking."""
    teachers = [
        TeacherSettings(name=name, model=name, base_url=url, accuracy=TEACHERS[name]) for name, url in urls.items()
    ]
    return ReplaySettings(teachers=tuple(teachers), gate=GateSettings(which="all", tiers=False))
