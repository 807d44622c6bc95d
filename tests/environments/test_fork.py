"""Forks: a new episode from the middle of another, which must equal playing its actions again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from etude.environments.coding.session import CodingSession
from etude.environments.forks import EpisodeStore, KeptEpisode, Point
from etude.environments.running import Budget
from etude.environments.sandbox import MIB
from etude.environments.tasks.task_set import TaskSet
from etude.errors import EpisodeNotKept, SessionError
from etude.models import Episode, State, Task, ToolMessage, Turn

SOLVE = {
    "tool": "edit_file",
    "arguments": {
        "path": "src/tally/core.py",
        "old": "    raise NotImplementedError\n",
        "new": "    return sum(values)\n",
    },
}
SUBMIT = {"tool": "submit"}
TALK = {"text": "I think about it."}
LOOK = (
    "find . /tmp /dev/shm -not -path './.git/*' -not -path /dev/shm -printf '%p %y %m %s %l\\n' 2>&1 | LC_ALL=C sort; "
    "git status --short; cat src/tally/*.py note /tmp/draft 2>&1"
)


def bash(command: str, **more: Any) -> dict[str, Any]:
    return {"tool": "bash", "arguments": {"command": command}, **more}


PLAYED = [
    bash("echo one >note; mkdir -p /tmp/a; echo t >/tmp/draft; ln -s note link; mkfifo pipe"),
    {"tool": "read_file", "arguments": {"path": "note"}},
    TALK,
    bash("rm -r src/tally; false"),
    bash("git checkout -q src; chmod 700 src; rm /tmp/draft; cat nowhere"),
    {
        "tool_calls": [
            {"id": "a", "name": "bash", "arguments": {"command": "echo two >>note"}},
            {"id": "a", "name": "bash", "arguments": {"command": "echo three >>note"}},
            {"id": "b", "name": "baash", "arguments": {}},
        ]
    },
    SOLVE,
    {"tool": "run_tests", "arguments": {}},
    TALK,
]


def run(script: Callable[[Callable[..., CodingSession]], Awaitable[Any]]) -> Any:
    """Run ``script``, which is given what makes sessions; all are closed afterwards."""

    async def inside() -> Any:
        created: list[CodingSession] = []

        def make(tasks: TaskSet, **options: Any) -> CodingSession:
            created.append(CodingSession(tasks, **options))
            return created[-1]

        try:
            return await script(make)
        finally:
            for session in created:
                await session.close()

    return asyncio.run(inside())


async def play(session: CodingSession, *actions: dict[str, Any], **arguments: Any) -> str:
    """Play an episode of these actions; return its id."""
    await session.reset(**arguments)
    for action in actions:
        await session.step(action)
    return session.episode().episode_id


def comparable(state: State) -> dict[str, Any]:
    return state.model_dump(exclude={"episode_id", "token", "fork"})


def played(episode: Episode) -> list[Any]:
    return [(turn.action, turn.messages) for turn in episode.turns]


@pytest.mark.parametrize("backend", ["auto", "process"])
def test_a_fork_equals_a_replay(tasks: TaskSet, backend: str) -> None:
    async def script(make: Callable[..., CodingSession]) -> None:
        store = EpisodeStore()
        source, forked, replayed = (make(tasks, backend=backend, store=store, annotate="observation") for _ in range(3))
        source_id = await play(source, *PLAYED)
        token = source.state().token
        for turn in range(len(PLAYED) + 1):
            one = await forked.reset(fork_of=source_id, turn=turn, token=token)
            other = await replayed.reset(replay=PLAYED[:turn])
            assert one == other, turn
            assert comparable(forked.state()) == comparable(replayed.state())
            fork = forked.state().fork
            assert fork is not None and (fork.episode_id, fork.turn, fork.replayed) == (source_id, turn, 0)
            for action in (TALK, bash(LOOK)) if turn not in (3, 9) else (bash(LOOK),):
                assert await forked.step(action) == await replayed.step(action), turn
            assert played(forked.episode()) == played(replayed.episode())
        one, other = await forked.step(SUBMIT), await replayed.step(SUBMIT)
        assert one == other and one.reward == 1.0
        assert forked.episode().diff == replayed.episode().diff
        assert comparable(forked.state()) == comparable(replayed.state())
        # The source continues as if nothing had happened.
        assert source.state().step_count == len(PLAYED) and (await source.step(SUBMIT)).reward == 1.0

    run(script)


def test_what_is_outside_the_files_is_part_of_the_state(tasks: TaskSet) -> None:
    async def script(make: Callable[..., CodingSession]) -> None:
        session = make(tasks, store=EpisodeStore(), budget=Budget(turns=4, tokens=100))
        talked = await play(session, bash("true"), TALK)
        await session.reset(fork_of=talked)
        assert (await session.step(TALK)).done and session.episode().end == "no_tool_call"
        await session.reset(fork_of=talked, turn=1)
        assert not (await session.step(TALK)).done
        many = await play(session, *[bash("true")] * 3)
        await session.reset(fork_of=many)
        assert (await session.step(bash("true"))).done and session.episode().end == "budget"
        wordy = await play(session, bash("true", usage={"completion_tokens": 99}), bash("true"))
        await session.reset(fork_of=wordy, turn=1)
        assert (await session.step(bash("true"))).done and session.episode().end == "budget"

    run(script)


def test_ended_episodes_and_forks_can_be_forked(tasks: TaskSet) -> None:
    async def script(make: Callable[..., CodingSession]) -> None:
        session = make(tasks, store=EpisodeStore(), tools=["bash", "edit_file", "submit"])
        solved = await play(session, bash("echo x >note"), SOLVE, SUBMIT, task_id="tally-total")
        whole = await session.reset(fork_of=solved, episode_id="whole")
        assert (whole.done, whole.reward) == (True, 1.0)
        assert [message.content for message in whole.messages] == ["ok", whole.messages[1].content, "ok\nsubmitted"]
        first = await session.reset(fork_of=solved, turn=1)
        assert [tool["function"]["name"] for tool in first.tools or []] == ["bash", "edit_file", "submit"]
        assert (await session.step(SUBMIT)).reward == 0.0
        await session.reset(fork_of=solved, turn=1, episode_id="again")
        await session.step(bash("echo y >>note"))
        await session.reset(fork_of="again", turn=2, episode_id="third")
        assert (await session.step(bash("cat note"))).messages[0].content == "ok\nx\ny\n"
        await session.reset(fork_of="third", turn=1)
        assert (await session.step(bash("cat note"))).messages[0].content == "ok\nx\n"
        closed = await play(session, bash("echo z >note"))
        await session.reset()
        await session.reset(fork_of=closed)
        assert (await session.step(bash("cat note"))).messages[0].content == "ok\nz\n"

    run(script)


def test_many_sessions_fork_a_running_episode_at_once(tasks: TaskSet) -> None:
    async def script(make: Callable[..., CodingSession]) -> None:
        store = EpisodeStore()
        source, *others = (make(tasks, store=store) for _ in range(5))
        running = await play(source, bash("echo 0 >note"), bash("echo 1 >note"), bash("echo 2 >note"))
        turn = asyncio.ensure_future(source.step(bash("for i in $(seq 300); do /bin/true; done; echo 3 >note")))

        async def fork(session: CodingSession, at: int) -> str:
            await session.reset(fork_of=running, turn=at, token=source.state().token)
            return (await session.step(bash("cat note; echo mine >note"))).messages[0].content

        observed = await asyncio.gather(*(fork(session, at) for at, session in enumerate(others, 0)))
        assert observed[1:] == ["ok\n0\n", "ok\n1\n", "ok\n2\n"] and "No such file" in observed[0]
        with pytest.raises(SessionError, match="has played 3 turns: turn must be 0 to 3"):
            await others[0].reset(fork_of=running, turn=4, token=source.state().token)
        await turn
        assert (await source.step(bash("cat note"))).messages[0].content == "ok\n3\n"

    run(script)


@pytest.mark.parametrize(
    "too_large", ["head -c 70M /dev/urandom >big", "mkdir many; cd many; seq 11000 | xargs touch"], ids=["big", "many"]
)
def test_a_layer_too_large_to_keep_is_played_again(tasks: TaskSet, too_large: str) -> None:
    async def script(make: Callable[..., CodingSession]) -> None:
        session = make(tasks, store=EpisodeStore())
        source = await play(session, bash("echo x >note"), bash(too_large), bash("echo y >>note"), bash("rm -r [bm]*"))
        for turn, replayed in ((1, 0), (2, 1), (3, 2), (4, 0)):
            await session.reset(fork_of=source, turn=turn, episode_id=f"fork-{turn}")
            fork = session.state().fork
            assert fork is not None and fork.replayed == replayed
            observed = (await session.step(bash("cat note; ls -d big many 2>/dev/null | wc -l"))).messages[0].content
            assert observed == f"ok\nx\n{'y' + chr(10) if turn > 2 else ''}{int(turn in (2, 3))}\n"

    run(script)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fork_of": "mine", "task_id": "tally-total"}, "give fork_of or task_id, not both"),
        ({"fork_of": "mine", "split": "train", "index": 0}, "give fork_of or split, not both"),
        ({"fork_of": "mine", "seed": 1}, "give fork_of or seed, not both"),
        ({"fork_of": "mine", "replay": []}, "give fork_of or replay, not both"),
        ({"fork_of": "mine", "tools": ["bash"]}, "give fork_of or tools, not both"),
        ({"fork_of": "mine", "turn": 2}, "has played 1 turns: turn must be 0 to 1"),
        ({"fork_of": "mine", "turn": -1}, "turn must be 0 to 1"),
        ({"fork_of": "mine", "turn": True}, "turn must be a number"),
        ({"turn": 1}, "turn needs fork_of="),
        ({"token": "x"}, "token needs fork_of="),
        ({"fork_of": "main"}, "no episode 'main' is kept for this token: .*or, when it is forgotten"),
        ({"fork_of": "mine", "token": "guess"}, "no episode 'mine' is kept for this token: give token="),
    ],
)
def test_a_fork_that_makes_no_sense_says_so(tasks: TaskSet, arguments: dict[str, Any], message: str) -> None:
    async def script(make: Callable[..., CodingSession]) -> None:
        session = make(tasks, store=EpisodeStore())
        await play(session, bash("true"), episode_id="mine")
        with pytest.raises(SessionError, match=message) as raised:
            await session.reset(**arguments)
        assert "\n" not in str(raised.value)
        assert (await session.step(bash("echo on"))).messages[0].content == "ok\non\n"

    run(script)


def test_an_episode_of_another_session_takes_its_token(tasks: TaskSet) -> None:
    async def script(make: Callable[..., CodingSession]) -> None:
        store = EpisodeStore()
        source, thief = make(tasks, store=store), make(tasks, store=store)
        await play(source, bash("echo secret >note"), episode_id="same")
        await play(thief, bash("echo own >note"), episode_id="same")
        await thief.reset(fork_of="same")
        assert (await thief.step(bash("cat note"))).messages[0].content == "ok\nown\n"
        await thief.reset(fork_of="same", token=source.state().token)
        assert (await thief.step(bash("cat note"))).messages[0].content == "ok\nsecret\n"

    run(script)


def test_a_store_of_size_zero_refuses_every_fork(tasks: TaskSet) -> None:
    async def script(make: Callable[..., CodingSession]) -> None:
        session = make(tasks, store=EpisodeStore(max_bytes=0))
        source = await play(session, bash("echo x >note"), SOLVE)
        with pytest.raises(SessionError, match="forgotten .see ETUDE_KEEP_MB., replay="):
            await session.reset(fork_of=source)
        assert (await session.step(SUBMIT)).reward == 1.0

    run(script)


# --- The store ------------------------------------------------------------------------------------------------


class Layer:
    def __init__(self, size: int) -> None:
        self.size = size
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def turn(text: str = "") -> Turn:
    return Turn(action={"text": text}, messages=[ToolMessage(role="user", content="ok")])


def kept(store: EpisodeStore, task: Task, name: str) -> KeptEpisode:
    return store.begin(KeptEpisode(name, "token", task, ["bash"], 0, "bubblewrap"))


def test_the_least_recently_used_episode_is_forgotten_first(task: Task) -> None:
    store = EpisodeStore(max_bytes=10 * MIB)
    layers = {name: Layer(2 * MIB) for name in "abcdef"}
    for name in "abcd":
        store.add(kept(store, task, name), turn(), Point(layer=layers[name]))
    store.fork("a", "token", None, "fork", "other")
    for name in "ef":
        store.add(kept(store, task, name), turn(), Point(layer=layers[name]))
    # The fork shares its source's layer, which counts once.
    assert 10 * MIB - 10_000 > store.bytes > 8 * MIB
    assert {name: layer.closed for name, layer in layers.items()} == {"a": 0, "b": 1, "c": 1, "d": 0, "e": 0, "f": 0}
    with pytest.raises(EpisodeNotKept, match="no episode 'b'"):
        store.fork("b", "token", 0, "x", "token")


def test_a_shared_layer_is_closed_with_its_last_holder(task: Task) -> None:
    store, layer = EpisodeStore(max_bytes=10 * MIB, max_episodes=2), Layer(1000)
    source = kept(store, task, "source")
    store.add(source, turn(), Point(layer=layer))
    store.add(source, turn(), Point(layer=layer))
    store.fork("source", "token", 2, "fork", "token")
    kept(store, task, "next")
    assert len(store) == 2 and not layer.closed and not store.keeps(source)
    kept(store, task, "last")
    assert layer.closed == 1 and store.bytes == 0


def test_one_episode_gets_a_quarter_of_the_store(task: Task) -> None:
    store = EpisodeStore(max_bytes=4 * MIB)
    episode, layers = kept(store, task, "big"), [Layer(600_000), Layer(600_000), Layer(10)]
    for layer in layers:
        store.add(episode, turn(), Point(layer=layer))
    assert [point.is_saved for point in episode.points] == [True, True, False, False]
    assert [layer.closed for layer in layers] == [0, 1, 1] and not store.keeps(episode)
    assert episode.nearest(3, "bubblewrap") == 1 and episode.nearest(3, "process") == 0


def test_an_episode_larger_than_the_store_is_not_kept(task: Task) -> None:
    store = EpisodeStore(max_bytes=1 * MIB)
    store.add(kept(store, task, "wordy"), turn("x" * (2 * MIB)), Point())
    assert len(store) == 0 and store.bytes == 0


def test_the_size_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETUDE_KEEP_MB", "many")
    with pytest.raises(ValueError, match="ETUDE_KEEP_MB is 'many': give a number of MiB"):
        EpisodeStore()
