"""Shared by the tests of experiments through the real stack: tiny bases, and a server of drills."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from etude.research.error_turns.worlds.world import World
    from etude.trainers.recipe.recipe import Sizes


@pytest.fixture(scope="session")
def tiny() -> Callable[[World], World]:
    """Return the world with tiny bases, made in a second. Their tokenizer writes long."""

    def of(world: World) -> World:
        return replace(world, sizes=_sizes)

    return of


@pytest.fixture(scope="session")
def tiny_base(tiny: Callable[[World], World], tmp_path_factory: pytest.TempPathFactory) -> Callable[[World], Path]:
    """Return a tiny base of the world's dialogues, named strong."""
    from etude.research.error_turns.real_stack import base_models

    def make_base(world: World) -> Path:
        return base_models.base(tiny(world), "strong", tmp_path_factory.mktemp("bases"))

    return make_base


@pytest.fixture(scope="session")
def base(tiny_base: Callable[[World], Path]) -> Path:
    """Return a tiny base of the drills' dialogues."""
    from etude.research.error_turns.worlds.drill_world import DRILLS

    return tiny_base(DRILLS)


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    """Yield the drills, served."""
    from etude.research.error_turns.worlds.drill_world import SERVED
    from etude.trainers.rollouts.local_server import local_server

    with local_server(SERVED) as found:
        yield found


def _sizes(name: str) -> Sizes:
    from etude.research.error_turns.small_world.bases import SKILL
    from etude.trainers.recipe.recipe import Sizes

    return Sizes(
        hidden=32, layers=1, heads=2, vocabulary=600, dialogues=24, copying=0, reading=1, steps=4, batch=2,
        skill=SKILL[name],
    )  # fmt: skip
