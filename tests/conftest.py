"""Shared by all tests: where the checkout is and which files belong to it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from helpers import scripted_endpoint

ROOT = Path(__file__).resolve().parent.parent
HAS_TORCH = importlib.util.find_spec("torch") is not None
# The tests whose module, or a helper of it, imports torch, transformers, TRL or datasets. The others in these folders
# run without torch.
NEEDS_TORCH = [
    "research/test_continual.py",
    "research/test_effort.py",
    "research/test_error_turns.py",
    "research/test_error_turns_coding.py",
    "research/test_error_turns_pairs.py",
    "research/test_error_turns_real*.py",
    "research/test_error_turns_results.py",
    "research/test_error_turns_s*.py",
    "research/test_muon_pretraining.py",
    "trainers/asynchronous/test_*.py",
    "trainers/chat/test_*.py",
    "trainers/diloco/test_*.py",
    "trainers/distillation/test_distiller.py",
    "trainers/distillation/test_divergence.py",
    "trainers/distillation/test_hidden_states.py",
    "trainers/distillation/test_teachers.py",
    "trainers/engines/test_*.py",
    "trainers/grpo/test_*.py",
    "trainers/integrations/test_*.py",
    "trainers/muon/test_*.py",
    "trainers/plan/test_*.py",
    "trainers/recipe/test_*.py",
    "trainers/replay/channel/test_*.py",
    "trainers/replay/test_command.py",
    "trainers/rollouts/test_rollout.py",
    "trainers/run/test_*.py",
    "trainers/sft/test_*.py",
    "trainers/sharded/test_*.py",
    "trainers/test_distributed.py",
    "trainers/test_gradients.py",
    "trainers/test_injected.py",
    "trainers/test_launchers.py",
    "trainers/test_peak_memory.py",
    "trainers/test_precision.py",
    "trainers/test_resume.py",
    "trainers/test_stopped.py",
    "trainers/test_vllm.py",
    "trainers/test_world.py",
    "trainers/tiny_models/test_*.py",
]
collect_ignore_glob = [] if HAS_TORCH else NEEDS_TORCH


def pytest_report_header() -> str | None:
    if HAS_TORCH:
        return None
    return "the tests that import torch are left out, torch is not installed: `make test-train` runs them"


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout: the folder that is the package."""
    return ROOT


@pytest.fixture(scope="session")
def tracked() -> list[str]:
    """Every file of the checkout that git tracks or would offer to add, relative to the root."""
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "-co", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    return sorted(name for name in listed if name and (ROOT / name).is_file())


@pytest.fixture(scope="session")
def checkout_in(tracked: list[str]) -> Callable[[Path], Path]:
    """Copies the checkout's files into a folder, as a clone would."""

    def copy(folder: Path) -> Path:
        for name in tracked:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
        return folder

    return copy


@pytest.fixture(scope="session")
def endpoints() -> ModuleType:
    """The scripted OpenAI-compatible endpoints."""
    return scripted_endpoint


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A stand-in of the Hub (``helpers.hub_server.Hub``) where ada is logged in; downloads go to a new cache."""
    import huggingface_hub.constants
    from helpers.hub_server import Hub, running

    stand_in = Hub()
    with running(stand_in) as url:
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(huggingface_hub.constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
        settings = {"HF_ENDPOINT": url, "HF_TOKEN": "hf_ada", "HF_HUB_DISABLE_XET": "1"}
        folders = {"HF_HOME": str(tmp_path / "hf"), "ETUDE_CACHE": str(tmp_path / "cache")}
        for name, value in {**settings, **folders}.items():
            monkeypatch.setenv(name, value)
        yield stand_in


class RootIsNoPackage:
    """The root holds the package's ``__init__.py``, and pytest would import it under the name of the clone's folder."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        return pytest.Dir.from_parent(parent, path=path) if path == ROOT else None


def pytest_configure(config: pytest.Config) -> None:
    os.environ.pop("COLUMNS", None)  # parallel workers set it; tables are to be as wide as in a pipe
    os.environ.setdefault("ETUDE_STORE", "none")  # servers of the tests write nothing to the home folder
    # Registered, because a conftest's own hooks do not see the folders above it.
    config.pluginmanager.register(RootIsNoPackage())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What looks at the whole process runs when all other tests have loaded what they load."""
    items.sort(key=lambda item: item.name == "test_the_checkout_is_loaded_under_one_name")
