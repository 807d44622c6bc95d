from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from helpers import light_server


@pytest.fixture(scope="session")
def light() -> ModuleType:
    """tests/helpers/light_server.py."""
    return light_server


@pytest.fixture(scope="module")
def served(light: Any) -> Iterator[Any]:
    with light.serving(light.light_app()) as running:
        yield running
