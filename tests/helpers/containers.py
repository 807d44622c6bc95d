"""Container images on a machine that pulls none: a Debian base made by debootstrap, and a Docker with compose."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

# This machine's own release, so that the system's Python is the same in the container.
SUITE = platform.freedesktop_os_release()["VERSION_CODENAME"]
BASE_IMAGE = f"localhost/etude-test-base:{SUITE}"
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_PACKAGES = "python3,python3-venv,git,ca-certificates"
# The plain builder needs no plug-in; Harbor's compose would otherwise ask for one.
VARIABLES = {"DOCKER_BUILDKIT": "0", "COMPOSE_BAKE": "false"}


def docker(*arguments: str | Path, **variables: str) -> str:
    """Return what a docker command prints; it must succeed."""
    environment = {**os.environ, **VARIABLES, **variables}
    done = subprocess.run(["docker", *arguments], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout.strip()


def require_docker() -> None:
    """Skip the test where there is no engine or no debootstrap; fail it where CI=true."""
    running = shutil.which("docker") and subprocess.run(["docker", "version"], capture_output=True).returncode == 0
    missing = None if running else "no docker engine runs; apt-get install docker.io"
    missing = missing or (None if shutil.which("debootstrap") else "apt-get install debootstrap")
    if missing:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(missing)


def base_image(folder: Path) -> str:
    """Return the name of an image with Debian's Python, venv and git, made when it is missing.

    It trusts the certificates that this machine trusts, because builds in it install packages.
    """
    if subprocess.run(["docker", "image", "inspect", BASE_IMAGE], capture_output=True).returncode == 0:
        return BASE_IMAGE
    tree = folder / "base"
    subprocess.run(
        ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", SUITE, tree],
        check=True,
        capture_output=True,
    )
    inside = tree / _CERTIFICATES.relative_to("/")
    if _CERTIFICATES.is_file():
        shutil.copyfile(_CERTIFICATES, inside)
    archive = folder / "base.tar"
    subprocess.run(["tar", "-C", tree, "-cf", archive, "."], check=True)
    settings = [part for name in ("SSL_CERT_FILE", "PIP_CERT") for part in ("-c", f"ENV {name}={_CERTIFICATES}")]
    docker("import", *settings, archive, BASE_IMAGE)
    archive.unlink()
    return BASE_IMAGE


def with_compose(folder: Path, compose: Path) -> Mapping[str, str]:
    """Return the variables that let docker find a compose plug-in at the path ``compose``."""
    plugins = folder / "docker" / "cli-plugins"
    plugins.mkdir(parents=True)
    (plugins / "docker-compose").symlink_to(compose)
    return {**VARIABLES, "DOCKER_CONFIG": str(folder / "docker")}
