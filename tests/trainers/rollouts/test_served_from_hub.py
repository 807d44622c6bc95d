"""A recipe whose tasks are on the Hub: the run's own server reads and verifies them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from helpers.task_folders import task_folder

from etude.cli import app as cli
from etude.client import Client
from etude.errors import RecipeError
from etude.trainers.recipe.recipe import Environment
from etude.trainers.rollouts.local_server import local_server


def test_a_recipe_serves_a_set_on_the_hub(hub: Any, tmp_path: Path) -> None:
    assert cli.main(["push", str(task_folder(tmp_path / "set")), "ada/counting"]) == 0

    async def tasks(url: str) -> list[str]:
        async with Client(url) as client:
            return [task.task_id for task in await client.tasks("train")]

    with local_server(Environment(serve="hub:ada/counting@main")) as url:
        assert asyncio.run(tasks(url)) == ["two", "three"]


def test_a_recipe_reports_why_a_set_on_the_hub_cannot_be_served(hub: Any) -> None:
    expected = "cannot serve 'hub:ada/none' as a set of tasks: hub:ada/none@main: no such repository"
    with pytest.raises(RecipeError, match=expected), local_server(Environment(serve="hub:ada/none")):
        pass
