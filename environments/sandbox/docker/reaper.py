"""Removal of the containers that a dead server left: one that was made but not started does not end by itself.

A shell waits on the server's pipe, which costs nothing; this module runs when that pipe has closed.
"""

from __future__ import annotations

import subprocess
import sys
import time

from ....errors import SandboxError
from . import engine as docker_engine

_PATIENCE_S = 30.0
_AGAIN_S = 2.0
# A request that was on its way when the server died may still make a container.
_ROUNDS = 4
_WAIT = 'read -r _; exec "$0" -P -m etude.environments.sandbox.docker.reaper "$@"'


def watch(kind: docker_engine.Kind) -> subprocess.Popen[bytes]:
    """Start waiting for this process's end; closing the returned process's stdin starts the removal early."""
    command = ["/bin/sh", "-c", _WAIT, sys.executable, kind.name, docker_engine.owner()]
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def reap(kind: docker_engine.Kind, owner: str) -> None:
    """Wait until ``owner`` is dead, then remove what it left. An engine that is gone has its leftovers removed later,
    when the next server connects.
    """
    give_up = time.monotonic() + _PATIENCE_S
    while not docker_engine.owner_is_dead(owner):
        if time.monotonic() > give_up:
            return
        time.sleep(0.05)
    for _ in range(_ROUNDS):
        try:
            docker_engine.Engine(kind).remove_leftovers(owner)
        except SandboxError:
            return
        time.sleep(_AGAIN_S)


if __name__ == "__main__":
    kinds = {kind.name: kind for kind in (docker_engine.DOCKER, docker_engine.PODMAN)}
    reap(kinds[sys.argv[1]], sys.argv[2])
