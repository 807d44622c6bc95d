"""Tests that run the recipes of docs/frameworks.md with packages that need an environment of their own, made by uv."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from helpers.paths import ROOT
from helpers.tool_environments import make_environment, run

pytestmark = pytest.mark.slow

VERIFIERS = "trainers/integrations/packages/verifiers"
AREAL = (
    "aiofiles aiohttp colorlog einops flask httpx hydra-core lark numba numpy omegaconf openai orjson packaging".split()
)
AREAL += "pillow psutil pydantic pyyaml ray requests tenacity torchdata transformers uvloop".split()
"""What AReaL's workflow API imports. AReaL requires 82 packages, and a torch below 2.11."""


@dataclass(frozen=True)
class Needs:
    """An environment: its packages, Python, torch, folders of the checkout, and packages without their requirements."""

    packages: tuple[str, ...]
    folders: tuple[str, ...] = ("",)
    python: str = "3.11"
    torch: bool = False
    without_requirements: tuple[str, ...] = ()


ENVIRONMENTS = {
    "inspect_ai": Needs(("inspect_ai==0.3.285",)),
    "SkyRL-gym": Needs(("skyrl-gym==0.4.0",)),
    "verl": Needs(("verl==0.9.1", "cachetools", "fastapi", "uvicorn"), torch=True),
    "AReaL": Needs(tuple(AREAL), torch=True, without_requirements=("areal==1.0.4",)),
    "atropos": Needs(("atroposlib==0.4.0",)),
    "ART": Needs(("openpipe-art==0.5.18",)),
    "verifiers 0.3.1": Needs(("verifiers==0.3.1", "uv"), ("", VERIFIERS)),
    "verifiers 0.4.0": Needs(("verifiers==0.4.0", "uv"), ("", VERIFIERS)),
    "NeMo Gym": Needs(("nemo-gym==0.4.0",), folders=(), python="3.12"),
}


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory, checkout_in: Callable[[Path], Path]) -> Callable[[str], Path]:
    """Return a function that makes an environment once and returns its folder of programs."""
    made: dict[str, Path] = {}

    def make(name: str) -> Path:
        if name not in made:
            folder, needs = tmp_path_factory.mktemp("venv"), ENVIRONMENTS[name]
            checkout = checkout_in(folder / "etude")
            requirements = [*needs.packages, *(checkout / part for part in needs.folders)]
            options = {"torch": needs.torch, "without_requirements": needs.without_requirements}
            made[name] = make_environment(folder, requirements, needs.python, **options)
        return made[name]

    return make


@pytest.mark.parametrize("name", ["inspect_ai", "SkyRL-gym"])
def test_recipe_prints_the_quoted_output_when_it_has_an_environment_of_its_own(
    name: str, programs: Any, recipes: Any, drills: Any, helper: Any, tmp_path: Path
) -> None:
    code, output = recipes[name]
    assert helper.run(code, drills.url, drills.policy.url, tmp_path, programs(name) / "python") == output


@pytest.mark.parametrize("name", ["inspect_ai", "SkyRL-gym"])
def test_recipe_gets_the_full_reward_when_a_coding_task_meets_its_own_environment(
    name: str, programs: Any, recipes: Any, coding: Any, helper: Any, tmp_path: Path
) -> None:
    printed = helper.run(recipes[name].code, coding.url, coding.policy.url, tmp_path, programs(name) / "python")
    assert printed.startswith(("1.0 ", "success 1.0 ")), printed


@pytest.mark.parametrize("name", ["verl", "AReaL", "atropos", "ART"])
def test_package_takes_the_record_when_the_recipe_goes_on_with_it(
    name: str, programs: Any, with_package: Any, drills: Any, helper: Any, tmp_path: Path
) -> None:
    code, output = with_package[name]
    assert helper.run(code, drills.url, drills.policy.url, tmp_path, programs(name) / "python") == output


@pytest.mark.parametrize(("version", "command"), [("0.3.1", "env eval"), ("0.4.0", "vf-eval")])
def test_verifiers_prints_the_quoted_output_when_it_plays_a_drill(
    version: str, command: str, programs: Any, recipes: Any, drills: Any, helper: Any, tmp_path: Path
) -> None:
    code, output = recipes["verifiers"]
    code = code.replace("vf-eval @", f"{command} @")  # `eval` alone is the shell's own
    folder = programs(f"verifiers {version}")
    assert helper.run_commands(code, drills.url, drills.policy.url, tmp_path, folder) == output


def test_verifiers_environment_server_gives_prime_rl_its_group(
    programs: Any, recipes: Any, drills: Any, tmp_path: Path
) -> None:
    code, output = recipes["prime-rl"]
    (source,) = tomllib.loads(code)["orchestrator"]["train"]["source"]
    source["env"]["taskset"]["task"]["resources_url"] = drills.url
    (tmp_path / "env.json").write_text(json.dumps(source["env"]))
    folder = programs("verifiers 0.4.0")
    script = [folder / "python", ROOT / "tests/helpers/adapter_group.py", tmp_path / "env.json", drills.policy.url, "2"]
    printed = run(script, tmp_path, PATH=f"{folder}:{os.environ['PATH']}", NO_KEY="none")
    group = json.loads(next(line for line in reversed(printed.splitlines()) if line.startswith("[{")))[0]
    rewards = [turn["reward"] for turn in group["traces"][0]["info"]["turn_rewards"]]
    assert f"{group['rewards']} {rewards}\n" == output


def test_nemo_gym_prints_the_quoted_output_when_it_plays_a_drill(
    programs: Any, recipes: Any, drills: Any, helper: Any, tmp_path: Path
) -> None:
    """Its servers are given this environment; without the option it makes one for each of them."""
    code, output = recipes["NeMo Gym"]
    folder, venvs = programs("NeMo Gym"), tmp_path / "venvs"
    for server in ("resources_servers/etude", "responses_api_agents/simple_agent", "responses_api_models/vllm_model"):
        (venvs / server).mkdir(parents=True)
        (venvs / server / ".venv").symlink_to(folder.parent)
    option = "++etude.resources_servers"
    code = code.replace(option, f"+uv_venv_dir={venvs} +skip_venv_if_present=true {option}")
    variables = {"CHECKOUT": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0", "WANDB_MODE": "disabled"}
    assert helper.run_commands(code, drills.url, drills.policy.url, tmp_path, folder, **variables) == output
