"""OpenEnv's validation at runtime level on a machine that cannot pull images; all images come from a local base.

python benchmarks/checks/validate_runtime.py BASE_IMAGE [--level semantic]

BASE_IMAGE holds python3 >= 3.11 with venv, and apt (`debootstrap`, then `docker import`). It replaces the
Dockerfile's base and OpenEnv's helper image, which must have a digest; Debian's `docker-registry` gives it one.
"""

from __future__ import annotations

import argparse
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from openenv.validation.providers.docker import DockerValidationProvider
from openenv.validation.runner import run_validation
from openenv.validation.types import Level

ROOT = Path(__file__).parents[2]
BASE = re.compile(r"(?m)^ARG BASE=(\S+)$")
START_S = 20.0


@contextmanager
def registry() -> Iterator[str]:
    """Run a registry on a free loopback port; yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "config.yml")
        config.write_text(
            f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {folder}}}}}\nhttp: {{addr: '{address}'}}\n"
        )
        with subprocess.Popen(
            ["docker-registry", "serve", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            try:
                _wait(address)
                yield address
            finally:
                process.terminate()


def _wait(address: str) -> None:
    host, _, port = address.partition(":")
    end = time.monotonic() + START_S
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise SystemExit("docker-registry does not start; apt-get install docker-registry") from None
            time.sleep(0.1)


def docker(*arguments: str) -> str:
    """Run a docker command and return its output."""
    return subprocess.run(["docker", *arguments], check=True, capture_output=True, text=True).stdout.strip()


def with_digest(image: str, address: str) -> str:
    """Push the image; return a name for it that ends in its digest."""
    name = f"{address}/helper"
    docker("tag", image, name)
    digest = re.search(r"sha256:[0-9a-f]{64}", docker("push", name))
    if digest is None:
        raise SystemExit(f"{name} was pushed without a digest; check the registry")
    return f"{name}@{digest[0]}"


def main() -> None:
    """Run the validation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base")
    parser.add_argument("--level", choices=("runtime", "semantic"), default="runtime")
    options = parser.parse_args()
    os.environ["DOCKER_BUILDKIT"] = "0"  # the plain builder needs no plug-in
    base = BASE.search((ROOT / "server" / "Dockerfile").read_text())
    assert base is not None
    docker("tag", options.base, base[1])
    with registry() as address:
        provider = DockerValidationProvider(helper_image=with_digest(options.base, address), build_timeout_s=3600)
        report = run_validation(ROOT, max_level=Level[options.level.upper()], provider=provider)
    for result in report.results:
        print(f"{result.status.value.upper():5} {result.check_id}", *result.evidence, sep="\n      ")
    print(f"Verdict: {report.verdict.value}")
    sys.exit(report.verdict.value == "fail")


if __name__ == "__main__":
    main()
