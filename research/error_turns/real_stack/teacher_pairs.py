"""Pairs of the arms with replay-DPO: a base's own episodes, and the answers of scripted teachers at its turns.

FOLDER/NAME has the episodes of the base NAME as `etude run` writes them, the pairs and the log of turns as `etude
replay` writes them, and an account of their cost, which counts in no run. Playing and asking are seeded.
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
"""Accuracy of each teacher: that of its script, and the initial estimate of `etude replay`."""
AGENT, PAIRS, ACCOUNT, PART = "base", "pairs.jsonl", "account.json", ".part"


class ArchivedEpisode(NamedTuple):
    """A stored episode and the token of its session; ``cut`` says that its last turn did not fit."""

    episode: Episode
    token: str
    cut: bool


def pairs(world: World, base: Path, url: str, folder: Path, *, tasks: Sequence[str] = ()) -> Path:
    """Return the file of pairs of ``base``, which is made unless it is there.

    ``tasks`` are played by the server at ``url``; by default ``EPISODES`` tasks of the world. Raises Refused and
    ReplayError.
    """
    archive, digest = folder / base.name, base_models.digest(base)
    if not archive.exists():
        part = archive.with_name(archive.name + PART)
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        account = play_and_ask(world, base, url, part, tasks or world.played(EPISODES))
        write_json(part / ACCOUNT, {"base": digest, **account})
        part.rename(archive)
    if read_json(archive / ACCOUNT)["base"] != digest:
        raise Refused(f"{archive} holds pairs of another base: remove it, or choose another --out")
    return archive / PAIRS


def play_and_ask(world: World, base: Path, url: str, out: Path, tasks: Sequence[str]) -> dict[str, Any]:
    """Play the tasks, ask the teachers, and return the account. Raises Refused when there is no pair."""
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
    """Play an episode of each task, sampled as in training, and write it to ``out``.

    Return the tokens of the sessions by episode id, and the number of episodes that were cut. These are left out,
    because their last turn is not complete.
    """
    settings = {"url": url, "sandbox": None, "annotate": "state"}
    about = {"agent": AGENT, "cause": "", "sample": 0, "settings": settings, "usage": {}}
    with tempfile.TemporaryDirectory() as folder, Journal(out, AGENT, settings) as journal:
        trainer = runs.build_run(world, Arm(), 1e-9, SEED, base, url, Path(folder) / "run", 1).trainer
        trainer.model.eval()
        torch.manual_seed(SEED)
        try:
            played = [
                archived
                for start in range(0, len(tasks), AT_ONCE)
                for archived in trainer._runner.run(play_together(trainer, tasks[start : start + AT_ONCE]))
            ]
        finally:
            trainer.close()
        complete = [archived for archived in played if not archived.cut]
        for archived in complete:
            journal.add(about, archived.episode)
        summary = summarise(AGENT, journal.rows, journal.rows, 1, str(out).removesuffix(PART))
    write_json(out / "summary.json", {**asdict(summary), "ok": summary.ok})
    return {archived.episode.episode_id: archived.token for archived in complete}, len(played) - len(complete)


async def play_together(trainer: Any, tasks: Sequence[str]) -> list[ArchivedEpisode]:
    """Play an episode of each task at the same time."""
    limits = trainer.parts.limits

    async def play_one(task_id: str) -> ArchivedEpisode:
        with trainer._batcher.playing():
            async with trainer._sessions.checkout() as client:
                arguments = {"task_id": task_id, "episode_id": f"{AGENT}-{task_id}"}
                sizes = {"max_ids": limits.max_ids, "max_turn_ids": limits.max_turn_ids}
                played = await rollout(arguments, trainer._chat, client, **sizes)
                return ArchivedEpisode(await client.episode(), (await client.state()).token or "", played.truncated)

    return list(await asyncio.gather(*map(play_one, tasks)))


# --- the teachers' answers ---------------------------------------------------------------------------------------


async def ask(run: Path, url: str, knows: Knows, tokens: Mapping[str, str]) -> Report:
    """Run `etude replay` on ``run``: ask every teacher at every turn, and execute its answer in a fork."""
    episodes = [stored.episode for stored in stored_episodes(run)]
    prompts = {episode.prompt: episode.task_id for episode in episodes}
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
    """Return the settings of the replay: the default consensus, and every teacher is asked at every turn."""
    teachers = [
        TeacherSettings(name=name, model=name, base_url=url, accuracy=TEACHERS[name]) for name, url in urls.items()
    ]
    return ReplaySettings(teachers=tuple(teachers), gate=GateSettings(which="all", tiers=False))
