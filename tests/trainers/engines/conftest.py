"""Fixtures of the losses for other engines; nothing here imports torch before a test needs it."""

from __future__ import annotations

from typing import Any

import pytest

SPLITS = ["whole", "micro-batches", "ranks", "ranks-and-micro-batches"]


@pytest.fixture(scope="session")
def step() -> Any:
    """One optimizer step (``helpers.engine_step.Step``)."""
    from helpers.engine_step import make_step

    return make_step()


@pytest.fixture(params=SPLITS)
def split(request: pytest.FixtureRequest) -> list[list[list[int]]]:
    """Rows of each micro-batch of each rank."""
    from helpers.engine_step import SPLITS as ROWS

    return ROWS[request.param]


@pytest.fixture(params=["contract", "package"])
def kind(request: pytest.FixtureRequest) -> str:
    """Whether an engine's documented contract or its installed package is used."""
    return str(request.param)
