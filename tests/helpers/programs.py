"""Programs that tests need and that a package manager installs."""

from __future__ import annotations

import os
import shutil

import pytest


def program(name: str, package: str) -> str:
    """Return the path of a program; without it the test is skipped, and fails where CI=true."""
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if path is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"no {name}; apt-get install {package}")
    return path
