"""Containers: what they are made of, who may speak with the worker, and that nothing outlives its server."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from helpers.engine_doorway import Doorway
from helpers.sandboxes import a_forked_child_is_refused, in_sandbox, until

from etude.environments.sandbox import Layers, open_sandbox
from etude.environments.sandbox.conformance.checking import SMALL
from etude.environments.sandbox.containers import stream, worker_sandbox
from etude.environments.sandbox.containers.stream import beat_all
from etude.environments.sandbox.docker import backend as docker
from etude.environments.sandbox.docker.engine import DOCKER, LABEL, OWNER, PODMAN, Engine, owner, owner_is_dead
from etude.environments.sandbox.docker.pool import close_pool, pool
from etude.errors import SandboxError, SandboxUnavailable

SERVER = """
import asyncio, pathlib, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
from etude.environments.sandbox import Layers, open_sandbox
async def main():
    sandbox = await open_sandbox(Layers(pathlib.Path(sys.argv[1])), backend=sys.argv[2])
    task = asyncio.ensure_future(sandbox.exec("(setsid sleep 3600 &); echo x >/tmp/x; sleep 3600", timeout_s=3600))
    await asyncio.wait([task], timeout=0.5)
    print(sandbox.container, flush=True)
    await task
asyncio.run(main())
"""


# Podman takes seconds where docker takes tenths.
@pytest.fixture(params=["docker", pytest.param("podman", marks=pytest.mark.slow)])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """Name an engine that works. Where CI=true a missing one is a failure."""
    name: str = request.param
    why_not = docker.probe(PODMAN if name == "podman" else DOCKER)
    if why_not:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"{name}: {why_not}")
    yield name
    close_pool()


def engine_of(backend: str) -> Engine:
    return Engine(PODMAN if backend == "podman" else DOCKER)


def play(layers: Layers, backend: str, use: Callable[[Any], Any], **options: Any) -> Any:
    return in_sandbox(layers, partial(use, **options), SMALL, backend)


def ours(backend: str, owned: str = "") -> list[str]:
    """Return the ids of all sandboxes' containers, or of one owner's."""
    labels = [f"{LABEL}=1", *([f"{OWNER}={owned}"] if owned else [])]
    return [one["Id"] for one in engine_of(backend).api.containers(all=True, filters={"label": labels})]


def spare_of(layers: Layers, backend: str) -> str:
    """Use and close a first sandbox, and return the container that is kept ready after it."""

    async def use(sandbox: Any) -> str:
        container: str = sandbox.container
        return container

    used = play(layers, backend, use)
    until(lambda: pool().ready and ours(backend) == pool().ready and used not in ours(backend))
    return ours(backend)[0]


def start_server(layers: Layers, backend: str) -> tuple[subprocess.Popen[str], str]:
    """Start a server with a running command; return it and its container."""
    command = [sys.executable, "-c", SERVER, str(layers.workspace), backend]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    return server, server.stdout.readline().strip()


def test_a_killed_server_leaves_no_container(layers: Layers, backend: str) -> None:
    server, container = start_server(layers, backend)
    assert container in ours(backend)
    server.kill()
    server.wait()
    until(lambda: not ours(backend))


def test_a_container_that_was_never_started_goes_with_its_killed_server(backend: str) -> None:
    script = """
import sys, time
from etude.environments.sandbox.docker.engine import DOCKER, LABEL, OWNER, PODMAN, owner
from etude.environments.sandbox.docker.pool import pool
from etude.environments.sandbox.docker.image import find_root
from etude.environments.sandbox import Layers
from pathlib import Path
engine = pool().engine(PODMAN if sys.argv[1] == "podman" else DOCKER)
config = {"Image": find_root(engine, Layers(Path("/"))).image, "Cmd": ["true"], "Labels": {LABEL: "1", OWNER: owner()}}
engine.api.create_container_from_config(config, f"etude-test-unstarted-{sys.argv[2]}")
print(owner(), flush=True)
time.sleep(600)
"""
    command = [sys.executable, "-c", script, backend, str(os.getpid())]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    owned = server.stdout.readline().strip()
    assert len(ours(backend, owned)) == 1
    server.kill()
    server.wait()
    until(lambda: not ours(backend, owned))


def test_a_server_that_ends_takes_its_spares_along(layers: Layers, backend: str) -> None:
    server, container = start_server(layers, backend)
    server.send_signal(signal.SIGINT)
    server.wait()
    assert ours(backend) == []
    assert container


def test_a_killed_worker_is_an_error_and_no_result(layers: Layers, backend: str) -> None:
    async def use(sandbox: Any) -> None:
        running = asyncio.ensure_future(sandbox.exec("sleep 60"))
        await asyncio.wait([running], timeout=0.2)
        pid = engine_of(backend).api.inspect_container(sandbox.container)["State"]["Pid"]
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(SandboxError, match="container is gone"):
            await running
        with pytest.raises(SandboxError, match="closed"):
            await sandbox.exec("true")
        container = sandbox.container
        await asyncio.to_thread(until, lambda: container not in ours(backend))

    play(layers, backend, use)


def test_a_stopped_worker_does_not_hang_its_caller(
    layers: Layers, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_sandbox, "_GRACE_S", 0.5)
    monkeypatch.setattr(stream, "_KILL_S", 0.5)

    async def use(sandbox: Any) -> None:
        pid = engine_of(backend).api.inspect_container(sandbox.container)["State"]["Pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(SandboxError, match="did not answer"):
                await sandbox.exec("true", timeout_s=0.2)
        finally:
            os.kill(pid, signal.SIGCONT)

    play(layers, backend, use)


def test_leftovers_of_dead_owners_are_removed_and_those_of_the_living_are_not(layers: Layers, backend: str) -> None:
    engine = engine_of(backend)
    play(layers, backend, lambda sandbox: sandbox.exec("true"))
    boot, namespace, pid, started = owner().split("/")
    owners = {
        "dead": f"{boot}/{namespace}/{pid}/1",
        "rebooted": f"another/{namespace}/{pid}/{started}",
        "alive": owner(),
        "elsewhere": f"{boot}/1/{pid}/1",
    }
    image = next(one for one in engine.api.images() if any("etude-sandbox" in tag for tag in one["RepoTags"] or []))
    made = {}
    for name, label in owners.items():
        # Created and never started: nothing but the label tells whose it is.
        config = {"Image": image["Id"], "Cmd": ["/bin/true"], "Labels": {LABEL: "1", OWNER: label}}
        made[name] = engine.api.create_container_from_config(config, f"etude-test-{name}-{os.getpid()}")["Id"]
    try:
        removed = engine.remove_leftovers()
        assert sorted(removed) == [f"etude-test-{name}-{os.getpid()}" for name in ("dead", "rebooted")]
        assert {made["alive"], made["elsewhere"]} <= set(ours(backend))
    finally:
        for container in made.values():
            engine.remove(container)


def test_who_is_dead() -> None:
    assert not owner_is_dead(owner())
    for label in ("", "a/b/c/d", "x"):
        assert not owner_is_dead(label), "what is not understood is left alone"


def test_the_container_is_hardened(layers: Layers, backend: str) -> None:
    async def use(sandbox: Any) -> dict[str, Any]:
        found: dict[str, Any] = engine_of(backend).api.inspect_container(sandbox.container)
        for inside in layers.binds:
            written = await sandbox.exec(f"touch {inside}/new")
            assert b"Read-only file system" in written.output, written
        return found

    found = play(layers, backend, use)
    host = found["HostConfig"]
    # The folders of the layers are read-only file systems of their own (an engine allows no read-only nameless volume).
    volumes = [mount["Destination"] for mount in found["Mounts"] if mount["Type"] == "volume"]
    assert volumes == ([] if backend == "podman" else list(layers.binds))
    assert host["NetworkMode"] == "none" and host["ReadonlyRootfs"] and host["AutoRemove"]
    assert not host["Privileged"] and "no-new-privileges" in str(host["SecurityOpt"])
    assert host["PidsLimit"] == SMALL.processes + 1
    assert SMALL.memory <= host["Memory"] == host["MemorySwap"] <= SMALL.memory + (64 << 20)
    others = [mount for mount in found["Mounts"] if mount["Destination"] not in volumes]
    assert not any(mount.get("RW") for mount in others) and "docker.sock" not in str(found["Mounts"])
    extra = {"CHOWN"} if backend == "podman" else set()
    added = {name.removeprefix("CAP_") for name in host["CapAdd"] or []}
    assert added <= {"SETUID", "SETGID", "KILL"} | extra


def test_what_shows_the_folders_goes_with_its_container(layers: Layers, backend: str) -> None:
    volumes = engine_of(backend).api.volumes
    before = {volume["Name"] for volume in volumes()["Volumes"] or []}

    async def use(sandbox: Any) -> str:
        container: str = sandbox.container
        return container

    used = play(layers, backend, use)
    until(lambda: used not in ours(backend))
    close_pool()
    until(lambda: not ours(backend))
    until(lambda: {volume["Name"] for volume in volumes()["Volumes"] or []} <= before)


def test_commands_cannot_reach_the_worker(layers: Layers, backend: str) -> None:
    probes = (
        "cat /proc/1/environ; ls /proc/1/fd; echo forged >/proc/1/fd/1; cat /proc/1/mem; ls -l /proc/1/exe; "
        "kill -9 1; kill -STOP 1; python3 -c 'import os; os.pidfd_open(1); os.open(\"/proc/1/fd/0\", os.O_WRONLY)'"
    )

    async def use(sandbox: Any) -> None:
        result = await sandbox.exec(probes)
        assert result.output.count(b"ermitted") + result.output.count(b"ermission denied") >= 7, result
        assert (await sandbox.exec("echo ok")).output == b"ok\n"

    play(layers, backend, use)


def test_nothing_of_the_namespace_outlives_a_command(layers: Layers, backend: str) -> None:
    make = (
        "import ctypes; c = ctypes.CDLL(None); print(c.shmget(77, 4096, 0o1600), c.msgget(77, 0o1600), "
        "c.semget(77, 1, 0o1600))"
    )

    async def use(sandbox: Any) -> None:
        made = await sandbox.exec(["/usr/bin/python3", "-ISc", make])
        assert made.exit_code == 0 and b"-1" not in made.output, made
        left = await sandbox.exec("cat /proc/sysvipc/*; ls /dev/mqueue")
        assert len(left.output.splitlines()) == 3, left

    play(layers, backend, use)


def test_an_idle_sandbox_is_kept_alive_and_frames_stay_whole(layers: Layers, backend: str) -> None:
    async def use(sandbox: Any) -> None:
        stop = threading.Event()

        def beat() -> None:
            while not stop.wait(0.0005):
                beat_all()

        thread = threading.Thread(target=beat)
        thread.start()
        try:
            data = os.urandom(3_000_000)
            for _ in range(3):
                await sandbox.write("big", data)
                assert await sandbox.read("big") == data
        finally:
            stop.set()
            thread.join()

    play(layers, backend, use)


def test_a_spare_is_ready_for_the_next_and_serves_another_workspace(layers: Layers, backend: str) -> None:
    spare = spare_of(layers, backend)
    (layers.workspace / "kept").write_text("another\n")

    async def use(sandbox: Any) -> tuple[str, bytes]:
        return sandbox.container, await sandbox.read("kept")

    assert play(layers, backend, use) == (spare, b"another\n")
    close_pool()
    until(lambda: not ours(backend))


def test_a_spare_that_died_is_replaced(layers: Layers, backend: str) -> None:
    spare_of(layers, backend)
    for container in ours(backend):
        engine_of(backend).remove(container)
    result = play(layers, backend, lambda sandbox: sandbox.exec("echo fine"))
    assert result.output == b"fine\n"


def test_a_saved_state_fits_its_own_workspace_only(layers: Layers, backend: str) -> None:
    async def use(sandbox: Any) -> None:
        saved = await sandbox.save()
        other = await open_sandbox(
            dataclasses.replace(layers, workspace=layers.binds["/opt/etude/env"]), SMALL, backend
        )
        try:
            with pytest.raises(SandboxError, match="fits no other"):
                await other.restore(saved)
        finally:
            await other.close()

    os.chown(layers.binds["/opt/etude/env"], 65532 if os.geteuid() == 0 else -1, -1)
    play(layers, backend, use)


def test_a_forked_child_does_not_touch_its_parents_sandbox(layers: Layers, backend: str) -> None:
    async def use(sandbox: Any) -> None:
        await a_forked_child_is_refused(sandbox)

    async def run(sandbox: Any) -> None:
        await asyncio.to_thread(lambda: None)
        await use(sandbox)

    play(layers, backend, run)


@pytest.mark.parametrize(
    ("environment", "why"),
    [
        ({"DOCKER_HOST": "tcp://192.0.2.1:2375"}, "not a unix socket.*must run here"),
        ({"DOCKER_HOST": "unix:///no/such/socket"}, "no docker engine at /no/such/socket.*apt-get install docker.io"),
        ({"ETUDE_DOCKER_BASE": "no-such/image:1"}, "not an image of docker here; run .docker pull"),
        ({"ETUDE_DOCKER_RUNTIME": "no-such-runtime"}, "no runtime 'no-such-runtime'.*runc.*daemon.json"),
    ],
)
def test_what_is_missing_is_said_with_its_remedy(
    layers: Layers, environment: dict[str, str], why: str, monkeypatch: pytest.MonkeyPatch, request: Any
) -> None:
    if "DOCKER_HOST" not in environment and docker.probe():
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"docker: {docker.probe()}")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SandboxUnavailable, match=why):
        asyncio.run(open_sandbox(layers, SMALL, "docker"))


def test_podman_says_who_chooses_its_runtime(layers: Layers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETUDE_PODMAN_SOCKET", "/no/such/socket")
    with pytest.raises(SandboxUnavailable, match="podman system service"):
        asyncio.run(open_sandbox(layers, SMALL, "podman"))


def test_a_socket_that_refuses_us_names_the_group(ordinary_user: Any) -> None:
    if docker.probe() or os.geteuid():
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("needs root and docker")
    probe = "from etude.environments.sandbox.docker import backend; print(backend.probe())"
    done = ordinary_user.run(["-c", probe])
    assert "docker" in done.stdout and ("usermod" in done.stdout or "pip install" in done.stdout), done


def test_the_pool_starts_no_more_than_wanted(layers: Layers, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETUDE_WARM", "0")
    play(layers, backend, lambda sandbox: sandbox.exec("true"))
    until(lambda: not ours(backend))
    assert pool().take_spare(engine_of(backend), {}) is None


@pytest.mark.parametrize("backend", ["docker"], indirect=True)
def test_an_engine_that_was_restarted_is_found_again(
    layers: Layers, backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    doorway = Doorway(tmp_path / "engine.sock")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{doorway.path}")

    async def use(sandbox: Any) -> str:
        return (await sandbox.exec("echo here", timeout_s=30)).output.decode()

    try:
        assert play(layers, backend, use) == "here\n"
        doorway.close()
        with pytest.raises(SandboxError, match="gone|no docker engine"):
            play(layers, backend, use)
        doorway.open()
        assert play(layers, backend, use) == "here\n"
        doorway.restarts += 1
        assert play(layers, backend, use) == "here\n"
    finally:
        close_pool()
        doorway.close()
