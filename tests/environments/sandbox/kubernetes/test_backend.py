"""Sandboxes as pods of a stand-in that really runs them: their life and their ends."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.sandboxes import a_forked_child_is_refused, in_sandbox, until
from helpers.stand_in_api import Api

from etude.environments.sandbox import Layers, Sandbox, open_sandbox
from etude.environments.sandbox.conformance.checking import SMALL, Opener, make_layers
from etude.environments.sandbox.conformance.suite import run_check
from etude.environments.sandbox.kubernetes.backend import LACKS, cleanup
from etude.environments.sandbox.kubernetes.fleet import close_fleet, fleet
from etude.errors import SandboxError

SERVER = """
import asyncio, pathlib, sys
from etude.environments.sandbox import Layers, open_sandbox
async def main():
    sandbox = await open_sandbox(Layers(pathlib.Path(sys.argv[1])), backend="kubernetes")
    task = asyncio.ensure_future(sandbox.exec("(setsid sleep 3600 &); sleep 3600", timeout_s=3600))
    await asyncio.wait([task], timeout=0.5)
    print(sandbox.container, flush=True)
    await task
asyncio.run(main())
"""
# The rest of the suite is slow: test_conformance.py.
CORE = (
    "runs_a_string_in_bash",
    "reads_and_writes_files",
    "reports_every_kind_of_change",
    "drops_hidden_writes_at_a_reset",
    "restores_in_another_sandbox",
    "ends_a_command_at_its_timeout",
    "survives_a_memory_bomb",
    "has_the_binds_read_only",
    "close_is_idempotent_and_final",
)


def play(layers: Layers, use: Callable[[Any], Awaitable[Any]]) -> Any:
    return in_sandbox(layers, use, SMALL, "kubernetes")


def test_the_core_of_the_suite_holds(api: Api, layers: Layers) -> None:
    async def run() -> dict[str, str]:
        opened, turn = Opener("kubernetes", layers), asyncio.Semaphore(4)

        async def check(name: str) -> str:
            async with turn:
                return await run_check(name, opened)

        return dict(zip(CORE, await asyncio.gather(*map(check, CORE)), strict=True))

    assert asyncio.run(run()) == dict.fromkeys(CORE, "ok")
    until(lambda: not api.cluster.pods)


def test_a_report_names_what_the_pod_itself_does_not_enforce(
    api: Api, layers: Layers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def report(sandbox: Sandbox) -> list[str]:
        return sandbox.report.lacks

    assert play(layers, report) == sorted([*LACKS, "loopback"])
    monkeypatch.setenv("ETUDE_KUBERNETES_NETWORK", "loopback")
    assert play(layers, report) == sorted(LACKS)


@pytest.mark.slow
def test_a_kubelet_that_kills_a_whole_container_is_noticed(api: Api, layers: Layers, tmp_path: Path) -> None:
    # Control groups of version 2 with memory.oom.group, as kubelets make them; this machine may have version 1.
    group = tmp_path / "cgroup"
    group.mkdir()
    files = {"cgroup.procs": "", "memory.oom.group": "1\n", "memory.events": "oom_kill 0\n"}
    for name, text in {**files, "cpu.stat": "usage_usec 1000\n"}.items():
        (group / name).write_text(text)
    api.cluster.node.cgroup = group

    async def use(sandbox: Sandbox) -> tuple[list[str], bytes]:
        bomb = f"b = bytearray({2 * SMALL.memory})"
        return sandbox.report.lacks, (await sandbox.exec(["/usr/bin/python3", "-ISc", bomb])).output

    lacks, output = play(layers, use)
    assert "memory-total" in lacks
    # The limit of one process comes first, so that this bomb at least does not end the sandbox.
    assert b"MemoryError" in output


@pytest.mark.slow
def test_with_loopback_the_worker_takes_the_interfaces_down(
    api: Api, layers: Layers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ETUDE_KUBERNETES_NETWORK", "loopback")
    names = ("has_a_private_loopback", "has_no_network", "has_no_capability_and_gains_none")

    async def run() -> tuple[dict[str, str], bytes]:
        verdicts = {name: await run_check(name, Opener("kubernetes", layers)) for name in names}
        sandbox = await open_sandbox(layers, SMALL, "kubernetes")
        try:
            states = await sandbox.exec("cd /sys/class/net; for name in *; do echo $name $(cat $name/flags); done")
            return verdicts, states.output
        finally:
            await sandbox.close()

    verdicts, states = asyncio.run(run())
    assert verdicts == dict.fromkeys(names, "ok")
    flags = {name: int(value, 16) for name, value in map(str.split, states.decode().splitlines())}
    assert flags["lo"] & 1 and len(flags) > 1, "a pod has another interface"
    assert not any(value & 1 for name, value in flags.items() if name != "lo")


@pytest.mark.slow
def test_folders_are_shown_from_a_claim(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    api.cluster.standard = "baseline"  # which hostPath would not fit
    claim = tmp_path / "claim"
    claim.mkdir()
    for folder in (tmp_path, *tmp_path.parents):
        if folder != Path("/tmp") and folder.is_relative_to("/tmp"):
            folder.chmod(folder.stat().st_mode | 0o055)
    layers = make_layers(claim)
    api.cluster.node.claims = {"cache": claim}
    monkeypatch.setenv("ETUDE_KUBERNETES_BINDS", f"claim:cache:{claim}")
    result = play(layers, lambda sandbox: sandbox.exec("cat /opt/etude/env/marker; touch /opt/etude/env/new"))
    assert result.output.startswith(b"from the bind\n") and b"Read-only file system" in result.output


@pytest.mark.slow
def test_packages_of_a_bound_interpreter_are_not_there(api: Api, layers: Layers) -> None:
    python = layers.binds["/opt/etude/env"] / "python"
    packages = python / "lib" / "python3.12" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "answer.py").write_text("ANSWER = 42\n")
    shown = replace(layers, binds={"/opt/etude/python": python})
    result = play(shown, lambda sandbox: sandbox.exec("find /opt/etude/python -type f; ls -d /opt/etude/python/lib/*"))
    assert result.output == b"/opt/etude/python/lib/python3.12\n"


@pytest.mark.slow
def test_a_spare_is_ready_for_the_next_sandbox_and_removed_with_the_process(
    api: Api, layers: Layers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ETUDE_WARM", "1")

    async def name(sandbox: Any) -> str:
        return str(sandbox.container)

    first = play(layers, name)
    until(lambda: fleet().spares.ready and list(api.cluster.pods) == fleet().spares.ready)
    (spare,) = fleet().spares.ready
    assert spare != first and play(layers, name) == spare
    close_fleet()
    until(lambda: not api.cluster.pods)


@pytest.mark.slow
def test_pods_of_a_killed_server_end_at_once_and_are_removed_later(api: Api, layers: Layers) -> None:
    layers = Layers(layers.workspace)
    command = [sys.executable, "-c", SERVER, str(layers.workspace)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    name = server.stdout.readline().strip()
    assert api.cluster.pods[name]["status"]["phase"] == "Running"
    server.send_signal(signal.SIGKILL)
    server.wait()
    until(lambda: api.cluster.pods[name]["status"]["phase"] == "Succeeded")
    assert cleanup() == [], "its owner may still ask why it ended"
    terminated = api.cluster.pods[name]["status"]["containerStatuses"][0]["state"]["terminated"]
    terminated["finishedAt"] = "2020-01-01T00:00:00Z"
    assert cleanup() == [name] and not api.cluster.pods


# How a pod ends


def end_of(api: Api, layers: Layers, end: Callable[[str], Any]) -> str:
    """Return the error of a command whose pod ends meanwhile."""

    async def use(sandbox: Any) -> str:
        running = asyncio.ensure_future(sandbox.exec("sleep 60"))
        await asyncio.wait([running], timeout=0.3)
        await asyncio.to_thread(end, sandbox.container)
        with pytest.raises(SandboxError) as caught:
            await running
        with pytest.raises(SandboxError, match="closed"):
            await sandbox.exec("true")
        return str(caught.value)

    said: str = play(layers, use)
    until(lambda: not api.cluster.pods)
    return said


def test_an_evicted_pod_is_an_error_with_the_cluster_s_words(api: Api, layers: Layers) -> None:
    message = "The node was low on resource: memory."
    said = end_of(api, layers, lambda name: api.cluster.fail(name, "Evicted", message))
    assert "was evicted (The node was low on resource: memory)" in said and said.endswith("open a new sandbox")


def test_a_killed_worker_is_an_error_and_no_result(api: Api, layers: Layers) -> None:
    assert "its worker ended with 137" in end_of(api, layers, api.cluster.kill)


@pytest.mark.slow
def test_a_deleted_pod_is_an_error(api: Api, layers: Layers) -> None:
    assert "the pod was deleted from outside" in end_of(api, layers, api.cluster.delete)


@pytest.mark.slow
def test_a_closed_connection_is_an_error(api: Api, layers: Layers) -> None:
    # The worker ends with its connection, so the pod has ended when the server looks.
    assert "its connection was closed" in end_of(api, layers, lambda name: api.drop_connections())


@pytest.mark.slow
def test_a_pod_ends_at_the_deadline_of_the_operator(
    api: Api, layers: Layers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pod.yaml").write_text("spec: {activeDeadlineSeconds: 3}\n")
    monkeypatch.setenv("ETUDE_KUBERNETES_POD", str(tmp_path / "pod.yaml"))
    assert "DeadlineExceeded" in end_of(api, layers, lambda name: None)


@pytest.mark.slow
def test_a_forked_child_does_not_touch_its_parent_s_pod(api: Api, layers: Layers) -> None:
    async def use(sandbox: Any) -> None:
        await a_forked_child_is_refused(sandbox)

    play(layers, use)
