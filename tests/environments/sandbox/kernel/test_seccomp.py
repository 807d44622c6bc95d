"""The filter's verdicts, by running the program as the kernel would."""

from __future__ import annotations

import errno
import struct

import pytest

from etude.environments.sandbox.kernel import seccomp

ALLOW, KILL = 0x7FFF0000, 0x80000000
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
COLUMN = {"x86_64": 0, "aarch64": 1}


def verdict(program: bytes, audit: int, number: int, *arguments: int) -> int:
    """Run a filter as a classic BPF machine does, and return its verdict on one system call."""
    data = struct.pack("=IIQ6Q", number, audit, 0, *[*arguments, 0, 0, 0, 0, 0, 0][:6])
    place, value = 0, 0
    while True:
        code, on_true, on_false, constant = struct.unpack_from("=HBBI", program, place * 8)
        place += 1
        if code == 0x20:
            value = struct.unpack_from("=I", data, constant)[0]
        elif code == 0x54:
            value &= constant
        elif code == 0x15:
            place += on_true if value == constant else on_false
        elif code == 0x45:
            place += on_true if value & constant else on_false
        elif code == 0x06:
            return int(constant)
        else:
            raise AssertionError(f"unknown instruction {code:#x}")


def refusal(code: int) -> int:
    return 0x00050000 | code


class Filter:
    def __init__(self, machine: str, network: bool) -> None:
        self.machine = machine
        self.program = seccomp.program(network=network, machine=machine)

    def __call__(self, name: str, *arguments: int) -> int:
        pair = {**seccomp.SYSCALLS, **seccomp.HOST_IPC}[name]
        number = pair[COLUMN[self.machine]]
        assert number is not None
        return verdict(self.program, AUDIT[self.machine], number, *arguments)


@pytest.fixture(params=AUDIT)
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_every_listed_call_is_refused(machine: str) -> None:
    for network in (True, False):
        ask = Filter(machine, network)
        plain = seccomp.SYSCALLS.keys() - seccomp._BY_ARGUMENT.keys()
        for name in plain if network else plain | set(seccomp.HOST_IPC):
            if {**seccomp.SYSCALLS, **seccomp.HOST_IPC}[name][COLUMN[machine]] is not None:
                assert ask(name) == refusal(errno.EPERM), name


def test_everything_else_is_allowed(machine: str) -> None:
    listed = {pair[COLUMN[machine]] for pair in {**seccomp.SYSCALLS, **seccomp.HOST_IPC}.values()}
    for network in (True, False):
        ask = Filter(machine, network)
        for number in set(range(500)) - listed:
            assert verdict(ask.program, AUDIT[machine], number) == ALLOW, number


def test_threads_may_be_made_but_no_namespaces(machine: str) -> None:
    ask = Filter(machine, True)
    assert ask("clone", 0x3D0F00) == ALLOW and ask("clone", 17) == ALLOW
    for flag in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        assert ask("clone", flag | 17) == refusal(errno.EPERM)
    assert ask("clone3") == refusal(errno.ENOSYS)


def test_the_page_cache_cannot_be_asked_or_emptied(machine: str) -> None:
    ask = Filter(machine, True)
    assert ask("preadv2", 3, 0, 1, 0, 0, 0) == ALLOW and ask("preadv2", 3, 0, 1, 0, 0, 0x8) == refusal(errno.EOPNOTSUPP)
    assert ask("fadvise64", 3, 0, 0, 2) == ALLOW and ask("fadvise64", 3, 0, 0, 4) == refusal(errno.EINVAL)
    assert ask("madvise", 0, 4096, 4) == ALLOW and ask("madvise", 0, 4096, 21) == refusal(errno.EINVAL)
    assert ask("mincore") == ask("cachestat") == refusal(errno.EPERM)


def test_terminals_cannot_be_typed_into(machine: str) -> None:
    ask = Filter(machine, True)
    assert ask("ioctl", 0, 0x5401) == ALLOW
    assert ask("ioctl", 0, 0x5412) == refusal(errno.EPERM)
    assert ask("ioctl", 0, 0x1_0000_5412) == refusal(errno.EPERM), "the kernel looks at the low half only"


def test_socket_families_with_a_network_of_its_own(machine: str) -> None:
    ask = Filter(machine, True)
    for family in (1, 2, 10, 16):
        assert ask("socket", family, 1) == ALLOW and ask("socketpair", family, 1) == ALLOW
    for family in (0, 5, 17, 31, 38, 40, 44):
        assert ask("socket", family, 1) == refusal(errno.EAFNOSUPPORT)


def test_only_connected_pairs_without_one(machine: str) -> None:
    ask = Filter(machine, False)
    for family in (1, 2, 10, 16, 17):
        assert ask("socket", family, 1) == refusal(errno.EPERM)
    cloexec = 0o2000000
    assert ask("socketpair", 1, 1 | cloexec) == ALLOW and ask("socketpair", 1, 5) == ALLOW
    assert ask("socketpair", 1, 2) == refusal(errno.EPERM), "a datagram socket can name another peer"


def test_other_processes_keep_their_limits(machine: str) -> None:
    ask = Filter(machine, False)
    assert ask("prlimit64", 0, 7) == ALLOW and ask("prlimit64", 4321, 7) == refusal(errno.EPERM)
    assert ask("setpriority", 0, 0) == ALLOW and ask("setpriority", 0, 4321) == refusal(errno.EPERM)
    assert Filter(machine, True)("prlimit64", 4321, 7) == ALLOW


def test_a_foreign_architecture_is_killed(machine: str) -> None:
    other = next(name for name in AUDIT if name != machine)
    program = seccomp.program(network=True, machine=machine)
    assert verdict(program, AUDIT[other], 0) == KILL
    assert verdict(program, 0x40000003, 0) == KILL


def test_x32_is_killed() -> None:
    assert verdict(seccomp.program(network=True, machine="x86_64"), AUDIT["x86_64"], 0x40000000 | 59) == KILL


def test_an_unknown_machine_says_which_there_are() -> None:
    with pytest.raises(NotImplementedError, match="riscv64.*x86_64"):
        seccomp.program(network=True, machine="riscv64")
