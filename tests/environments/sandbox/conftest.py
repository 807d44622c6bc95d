"""Fixtures: a small workspace, and a user who is not root."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from etude.environments.sandbox import Layers
from etude.environments.sandbox.conformance.checking import make_layers
from etude.environments.sandbox.conformance.ordinary_user import OrdinaryUser
from etude.environments.sandbox.conformance.ordinary_user import ordinary_user as copy_for_ordinary_user


@pytest.fixture
def layers() -> Iterator[Layers]:
    """Make the layers outside pytest's own folder, which is closed to the sandbox user."""
    with tempfile.TemporaryDirectory(prefix="etude-layers-") as folder:
        yield make_layers(Path(folder))


@pytest.fixture(scope="session")
def ordinary_user() -> Iterator[OrdinaryUser]:
    """Copy what the sandboxes need to where every user can read it: a checkout may lie below a closed home."""
    with copy_for_ordinary_user() as user:
        yield user
