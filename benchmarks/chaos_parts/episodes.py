"""Episodes of scripted agents under one fault each, and what is known about their grades afterwards."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import httpx
from websockets.exceptions import ConnectionClosed, InvalidMessage

from etude.benchmarks.chaos_parts.network import FaultyNetwork
from etude.benchmarks.chaos_parts.raw_wire import RawWire, garbage
from etude.benchmarks.chaos_parts.server_process import ServerProcess
from etude.client import Client
from etude.environments import agents
from etude.errors import ConnectionLost, ServerError, ServerInfrastructureError
from etude.models import Task


@dataclass
class Played:
    """One episode: what the agent did, and what its client read."""

    episode_id: str
    agent: str
    fault: str
    token: str = ""
    injected: int = 0
    """How often the fault was injected."""
    outcome: str = "lost"
    """``graded``, ``void`` (the machine failed), ``lost`` (the session is gone), or ``refused``."""
    cause: str = ""
    """What a client read of an episode that is not graded."""
    reward: float | None = None
    sandbox: str = ""
    """Backend that played it."""
    clean: bool = True
    """Whether every action of the agent was answered with ok, so that its solution is in the workspace."""
    problems: list[str] = field(default_factory=list)
    """Broken promises that were seen during the episode."""

    def expect(self, holds: bool, problem: str) -> None:
        """Note a problem unless something holds."""
        if not holds:
            self.problems.append(f"{self.fault}, episode {self.episode_id}: {problem}")


class Players:
    """Plays episodes against one server over a network of its own for each of them."""

    def __init__(self, server: ServerProcess, tasks: list[Task]) -> None:
        self._server = server
        self._tasks = tasks
        self.faults: dict[str, Callable[[Played, list[Any], Task, random.Random], Coroutine[Any, Any, None]]] = {
            "none": self._with_client,
            "dropped socket": self._with_client,
            "duplicate frame": self._over_wire,
            "frame out of order": self._over_wire,
            "garbage frames": self._over_wire,
            "half-open socket": self._over_wire,
            "slow reader": self._over_wire,
        }

    async def play(self, stream: random.Random) -> Played:
        """Play one episode with a random agent, task and fault."""
        task, fault = stream.choice(self._tasks), stream.choice(sorted(self.faults))
        played = Played(uuid.UUID(int=stream.getrandbits(128)).hex, stream.choice(("oracle", "oracle", "noop")), fault)
        try:
            await self.faults[fault](played, _actions(played.agent, task), task, stream)
        except ServerInfrastructureError as error:
            played.outcome, played.cause = "void", str(error)
        except (ConnectionLost, ConnectionClosed, InvalidMessage, OSError, httpx.HTTPError, TimeoutError):
            played.outcome = "lost"
        except ServerError as error:
            played.outcome, played.cause = "void" if "void" in str(error) else "refused", str(error)
        if played.outcome == "lost" and played.token:
            await self._read_grade(played)
        return played

    async def _read_grade(self, played: Played) -> None:
        """Read what the server has of an episode whose last answer was lost."""
        await self._server.wait_until_healthy()
        headers = {"Authorization": f"Bearer {played.token}"}
        async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
            answer = await http.get(f"{self._server.url}/episodes/{played.episode_id}", headers=headers)
        reward = answer.json().get("reward") if answer.is_success else None
        if reward and reward["valid"]:
            played.outcome, played.reward = "graded", reward["value"]

    def _note(self, played: Played, observation: dict[str, Any], turn: dict[str, Any]) -> None:
        done = bool(observation["done"])
        calls = turn.get("tool_calls") or []
        is_last = any(call.get("name") == "submit" for call in calls)
        messages = observation.get("messages") or []
        if not is_last and not all(message["content"].startswith("ok") for message in messages):
            played.clean = False
        if done:
            played.outcome, played.reward = "graded", observation["reward"]

    async def _with_client(self, played: Played, turns: list[Any], task: Task, stream: random.Random) -> None:
        """Play with Etude's client; its connections are cut before, during and after turns."""
        network = await asyncio.to_thread(FaultyNetwork, self._server.url)
        try:
            async with Client(network.url) as client:
                await client.reset(task_id=task.task_id, episode_id=played.episode_id)
                first = await client.state()
                played.token, played.sandbox = first.token or "", first.sandbox.backend if first.sandbox else ""
                for turn in turns:
                    step = asyncio.ensure_future(client.step(turn))
                    if played.fault == "dropped socket" and stream.random() < 0.6:
                        await asyncio.wait({step}, timeout=stream.choice((0.0, 0.05, 0.5)))
                        await asyncio.to_thread(network.cut)
                        played.injected += 1
                    self._note(played, (await step).model_dump(), turn)
                state = await client.state()
                played.expect(state.step_count == len(turns), f"{state.step_count} turns of {len(turns)}")
        finally:
            await asyncio.to_thread(network.close)

    async def _over_wire(self, played: Played, turns: list[Any], task: Task, stream: random.Random) -> None:
        """Play frame by frame, with the fault at random turns."""
        network = await asyncio.to_thread(FaultyNetwork, self._server.url)
        try:
            async with RawWire(network.url) as wire:
                arguments = {"task_id": task.task_id, "episode_id": played.episode_id}
                _result(await wire.ask(wire.next_frame("reset", arguments)))
                played.sandbox = (await wire.state())["sandbox"]["backend"]
                played.token = wire.token
                for number, turn in enumerate(turns):
                    if stream.random() < 0.6 or number == len(turns) - 1:
                        await self._disturb(played, wire, network, stream, number)
                    frame = wire.next_frame("step", turn)
                    answer = await wire.ask(frame)
                    self._note(played, _result(answer), turn)
                    if played.fault == "duplicate frame":
                        played.injected += 1
                        played.expect(await wire.ask(frame) == answer, "a repeated frame got another answer")
                state = await wire.state()
                played.expect(state["step_count"] == len(turns), f"{state['step_count']} turns of {len(turns)}")
        finally:
            await asyncio.to_thread(network.close)

    async def _disturb(
        self, played: Played, wire: RawWire, network: FaultyNetwork, stream: random.Random, turns: int
    ) -> None:
        """Inject the fault of an episode before its turn ``turns``."""
        if played.fault == "frame out of order":
            number = wire.number + stream.randrange(2, 9)
            answer = await wire.ask(wire.frame("step", {"tool": "submit"}, number))
            played.expect(answer["data"].get("code") == "OUT_OF_ORDER", f"frame {number} got {str(answer)[:200]}")
            state = await wire.state()
            played.expect(state["step_count"] == turns, "a frame out of order was played")
        elif played.fault == "garbage frames":
            for _ in range(stream.randrange(1, 5)):
                await wire.send(garbage(stream))
                answer = await wire.answer()
                played.expect(answer["type"] == "error", f"garbage got {str(answer)[:200]}")
                played.injected += 1
            return
        elif played.fault == "half-open socket":
            await asyncio.to_thread(network.silence, True)
            await wire.open(self._server.url)  # the first connection stays open on the server, and says nothing
        elif played.fault == "slow reader":
            await self._read_slowly(wire, stream)
        else:
            return
        played.injected += 1

    async def _read_slowly(self, wire: RawWire, stream: random.Random) -> None:
        """Ask for states without reading the answers for a while, then read them all."""
        count = stream.randrange(50, 200)
        for _ in range(count):
            await wire.send('{"type": "state"}')
        await asyncio.sleep(stream.uniform(0.5, 2.0))
        for _ in range(count):
            await wire.answer()


def _actions(agent: str, task: Task) -> list[Any]:
    """Return the turns of a scripted agent."""
    script = agents.make(agent, task)
    turns: list[Any] = []
    while (turn := script.act({"done": False})) is not None:
        turns.append(turn)
    return turns


def _result(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the observation in an answer, flat. Raises what Etude's client raises for an error."""
    data = answer["data"]
    if answer["type"] == "error":
        message = str(data["message"])
        raise (ServerInfrastructureError if message.startswith("infrastructure:") else ServerError)(message)
    return {**data["observation"], "done": data["done"], "reward": data["reward"]}
