"""Steps between fork and exec, shared by everything that starts commands. Stdlib only, Python 3.8."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from . import linux

OPEN_FILES = 4096
_FIRST_FREE = 100


def place_descriptors(by_number: Mapping[int, int]) -> None:
    """Give descriptors their numbers in the command (number: descriptor); exec inherits them."""
    copies = {number: _copy(descriptor) for number, descriptor in by_number.items()}
    for number, descriptor in copies.items():
        os.dup2(descriptor, number)


def _copy(descriptor: int) -> int:
    """Return a duplicate with a number above all that commands use."""
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE)


def report(status: int, record: Mapping[str, object]) -> None:
    """Write one line to a status pipe."""
    os.write(status, json.dumps(record).encode() + b"\n")


def become_user(uid: int) -> None:
    """Drop root for good."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def lower_limit(kind: int, value: int) -> None:
    """Lower a resource limit, never raise it."""
    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def restore_signals() -> None:
    """Give the signals that Python and the keeper ignore their default actions."""
    for name in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(name, signal.SIG_DFL)


def become_command(
    request: Mapping[str, Any],
    descriptors: Mapping[int, int],
    status: int,
    confine: Callable[[], None],
    seccomp_program: bytes,
) -> NoReturn:
    """Turn a forked process into the requested command.

    ``confine`` gives up rights before the working folder is entered. A failure is reported to the ``status`` pipe: as
    ``failed`` when it is the machine's, as ``refused`` with an exit code when it is the request's.
    """
    outcome, code, subject = "failed", 126, "start"
    status = _copy(status)
    try:
        words = [word.encode("latin-1") for word in request["argv"]]
        environment = {key.encode(): value.encode("latin-1") for key, value in request["env"].items()}
        place_descriptors(descriptors)
        os.setsid()
        confine()
        outcome, subject = "refused", request["cwd"]
        os.chdir(request["cwd"].encode("latin-1"))
        linux.no_new_privileges()
        linux.load_seccomp(seccomp_program)
        subject, code = request["argv"][0], 127
        os.execvpe(words[0], words, environment)
    except OSError as error:
        code = code if isinstance(error, FileNotFoundError) else 126
        report(status, {outcome: f"{subject}: {error.strerror}", "code": code})
    finally:
        os._exit(125)
