from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture(scope="session")
def light() -> ModuleType:
    """tests/server/light.py; pytest's importlib mode has no other way to share a module."""
    spec = importlib.util.spec_from_file_location("light", Path(__file__).with_name("light.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["light"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def served(light: Any) -> Iterator[Any]:
    with light.serving(light.light_app()) as running:
        yield running
