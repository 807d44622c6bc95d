"""Choice of a backend, and the error when none works."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from helpers.sandboxes import in_sandbox

from etude.environments.sandbox import Layers, Limits, Sandbox, available, open_sandbox, registry
from etude.environments.sandbox.conformance.checking import SMALL
from etude.environments.sandbox.kernel import landlock
from etude.environments.sandbox.protocol import Backend
from etude.errors import SandboxError, SandboxUnavailable, UnknownName

OPEN = """
import asyncio, pathlib, sys
from etude.environments.sandbox import Layers, available, open_sandbox
from etude.errors import SandboxError
async def main():
    try:
        sandbox = await open_sandbox(Layers(pathlib.Path(sys.argv[1])), backend=sys.argv[2])
        print(sandbox.report.backend, (await sandbox.exec("id -u")).output.decode())
        await sandbox.close()
    except SandboxError as error:
        print(type(error).__name__, error)
asyncio.run(main())
print(available())
"""

# A user namespace that may have no other below it, and in it an ordinary user.
FORBID = """
import ctypes, os, sys
parent, ready, go = os.getpid(), os.pipe(), os.pipe()
if os.fork() == 0:
    os.read(ready[0], 1)
    for name in ("uid_map", "gid_map"):
        open(f"/proc/{parent}/{name}", "w").write("0 0 65536")
    os.write(go[1], b"x")
    os._exit(0)
assert ctypes.CDLL(None).unshare(0x10000000) == 0
os.write(ready[1], b"x")
os.read(go[0], 1)
open("/proc/sys/user/max_user_namespaces", "w").write("0")
os.setgroups([])
os.setresgid(64321, 64321, 64321)
os.setresuid(64321, 64321, 64321)
os.execv(sys.argv[1], sys.argv[1:])
"""


def opened_backend(layers: Layers, backend: str = "auto") -> str:
    async def name(sandbox: Sandbox) -> str:
        return sandbox.report.backend

    return in_sandbox(layers, name, SMALL, backend)


def test_auto_takes_the_strongest(layers: Layers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ETUDE_SANDBOX", raising=False)
    assert opened_backend(layers) == "bubblewrap"


def test_auto_takes_no_weaker_sandbox_when_the_chosen_one_fails_later(
    layers: Layers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ETUDE_SANDBOX", raising=False)
    chosen, load = opened_backend(layers), registry.load_backend

    async def refuse(layers: Layers, limits: Limits) -> Sandbox:
        raise SandboxUnavailable("it was killed while it started")

    def broken(name: str) -> Backend:
        return Backend(refuse, lambda: None) if name == chosen else load(name)

    monkeypatch.setattr(registry, "load_backend", broken)
    with pytest.raises(SandboxError, match=f"{chosen} has worked before and does not work now") as error:
        opened_backend(layers)
    assert not isinstance(error.value, SandboxUnavailable)


def test_the_environment_overrides_auto_only(layers: Layers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETUDE_SANDBOX", "process")
    assert opened_backend(layers) == "process"
    assert opened_backend(layers, "bubblewrap") == "bubblewrap"


def test_an_unknown_name_offers_the_nearest(layers: Layers) -> None:
    with pytest.raises(UnknownName, match="Did you mean 'bubblewrap'"):
        asyncio.run(open_sandbox(layers, backend="bublewrap"))


def test_available_agrees_with_opening() -> None:
    found = available()
    assert set(found) == {"bubblewrap", "docker", "kubernetes", "podman", "process"}
    assert found["bubblewrap"] is None and found["process"] is None


def test_a_missing_workspace_is_said(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="not a folder"):
        asyncio.run(open_sandbox(Layers(tmp_path / "absent")))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can own a tree that the sandbox user does not")
@pytest.mark.parametrize("backend", ["bubblewrap", "process"])
def test_a_tree_of_another_owner_is_refused(layers: Layers, backend: str) -> None:
    os.chown(layers.workspace, 0, 0)
    with pytest.raises(SandboxError, match=r"must belong to uid 65532.*chown"):
        asyncio.run(open_sandbox(layers, SMALL, backend))


def test_without_landlock_only_by_consent(layers: Layers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "version", lambda: 0)
    monkeypatch.delenv("ETUDE_ALLOW_UNSANDBOXED", raising=False)
    with pytest.raises(SandboxUnavailable, match="no Landlock.*ETUDE_ALLOW_UNSANDBOXED=1"):
        asyncio.run(open_sandbox(layers, SMALL, "process"))
    assert "no Landlock" in str(available()["process"])
    monkeypatch.setenv("ETUDE_ALLOW_UNSANDBOXED", "1")

    async def play(sandbox: Sandbox) -> Any:
        return sandbox.report, (await sandbox.exec("cat kept; id -u")).output

    report, output = in_sandbox(layers, play, SMALL, "process")
    assert report.isolation == "none" and "file-isolation" in report.lacks
    assert output.startswith(b"kept\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can forbid user namespaces to a process tree")
def test_without_user_namespaces_bubblewrap_says_so_and_auto_goes_on(layers: Layers, ordinary_user: Any) -> None:
    wrapper = (ordinary_user.python, "-c", FORBID)
    for backend in ("bubblewrap", "auto"):
        done = ordinary_user.run(["-c", OPEN, str(layers.workspace), backend], wrapper=wrapper)
        first, *_, found = done.stdout.strip().splitlines()
        assert "user.max_user_namespaces" in found and "'process': None" in found, done
        if backend == "bubblewrap":
            assert first.startswith("SandboxUnavailable bubblewrap: user namespaces are refused here"), done
        else:
            assert first == "process 64321", done
