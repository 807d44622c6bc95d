"""Attempts over the network: listeners, sockets and tables of the host. Nothing leaves the loopback interface."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from .calls import Found, Target, contents, first

if TYPE_CHECKING:
    from .calls import Attempt

_PATIENCE_S = 2.0
_AF_ALG, _AF_VSOCK = 38, 40
_ENGINES = (
    "/var/run/docker.sock",
    "/run/docker.sock",
    "/run/podman/podman.sock",
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
)


def _answer(family: int, address: object) -> bytes:
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.settimeout(_PATIENCE_S)
        client.connect(address)  # type: ignore[arg-type]
        return client.recv(100)


def _is_opened(family: int, kind: int, protocol: int = 0) -> bool:
    """Open a socket, connect it to nothing, and return True."""
    with socket.socket(family, kind, protocol):
        return True


def sends_a_datagram_to_the_host(target: Target) -> Found:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(_PATIENCE_S)
        client.connect(("127.0.0.1", target["datagram_port"]))
        client.send(b"hello")
        return client.recv(100)


def connects_to_a_container_engine(target: Target) -> Found:
    def connect(path: str) -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            return True

    return first(connect, _ENGINES)


def reads_the_table_of_interfaces(target: Target) -> Found:
    lines = contents("/proc/net/dev").decode().splitlines()
    return _shows_the_host({line.split(":")[0].strip() for line in lines}, target)


def lists_the_interfaces_of_the_host(target: Target) -> Found:
    return _shows_the_host({name for _, name in socket.if_nameindex()}, target)


def _shows_the_host(names: set[str], target: Target) -> bool:
    """Return whether one of these interfaces is the host's: a container's own may have the same name, and another
    address.
    """
    for name in names & set(target["interfaces"]):
        try:
            if _address_of(name) == target["interfaces"][name]:
                return True
        except OSError:
            return True
    return False


def _address_of(interface: str) -> str:
    return contents(f"/sys/class/net/{interface}/address").decode().strip()


def reads_the_settings_of_an_interface(target: Target) -> Found:
    return first(lambda name: _address_of(name) == target["interfaces"][name], target["interfaces"])


ATTEMPTS: dict[str, Attempt] = {
    "connects_to_a_listener_of_the_host": lambda target: _answer(socket.AF_INET, ("127.0.0.1", target["port"])),
    "connects_to_a_listener_over_ipv6": lambda target: _answer(socket.AF_INET6, ("::1", target["port6"])),
    "connects_to_an_abstract_socket": lambda target: _answer(socket.AF_UNIX, "\0" + target["abstract"]),
    "connects_to_a_socket_in_a_folder": lambda target: _answer(socket.AF_UNIX, target["socket"]),
    "opens_a_raw_socket": lambda target: _is_opened(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP),
    "opens_a_packet_socket": lambda target: _is_opened(socket.AF_PACKET, socket.SOCK_RAW),
    "opens_a_socket_to_the_hypervisor": lambda target: _is_opened(_AF_VSOCK, socket.SOCK_STREAM),
    "opens_a_crypto_socket": lambda target: _is_opened(_AF_ALG, socket.SOCK_SEQPACKET),
    "reads_the_table_of_listeners": lambda target: (
        f"0100007F:{target['port']:04X}" in contents("/proc/net/tcp").decode()
    ),
    "reads_the_table_of_unix_sockets": lambda target: target["abstract"].encode() in contents("/proc/net/unix"),
}
