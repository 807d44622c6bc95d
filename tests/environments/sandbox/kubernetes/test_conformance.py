"""The whole conformance suite on pods of the stand-in, with each kind of network and with an image that was built."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest
from helpers.containers import base_image, docker, require_docker
from helpers.stand_in_api import Api
from helpers.stand_in_node import NodeImage

from etude.environments.sandbox.conformance.escapes.run import ESCAPES, GAPS
from etude.environments.sandbox.conformance.suite import CHECKS, NEEDS, run_all

pytestmark = pytest.mark.slow

# What pods may be excused from, so that no guarantee is lost unseen.
EXCUSED = {
    "none": {"bind-paths", "disk-quota", "loopback", "machine-facts", "process-quota"},
    "loopback": {"bind-paths", "disk-quota", "machine-facts", "process-quota"},
}
BUILT = "localhost/etude-test-pod-image:latest"


def verdicts_of(network: str) -> dict[str, str]:
    """Run the suite, and return the verdicts that are neither ``ok`` nor expected excuses."""
    guarantees = {**NEEDS, **GAPS}
    verdicts = asyncio.run(run_all("kubernetes"))
    assert verdicts.keys() == {*CHECKS, *ESCAPES}
    expected = {name: f"excused: {label}" for name, label in guarantees.items() if label in EXCUSED[network]}
    return {name: verdict for name, verdict in verdicts.items() if verdict not in ("ok", expected.get(name))}


@pytest.mark.parametrize("network", EXCUSED)
def test_pods_conform(api: Api, network: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETUDE_WARM", "1")
    monkeypatch.setenv("ETUDE_KUBERNETES_NETWORK", network)
    assert verdicts_of(network) == {}


def test_pods_of_the_built_image_conform(api: Api, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_docker()
    monkeypatch.setenv("ETUDE_KUBERNETES_NETWORK", "loopback")
    recipe = root / "examples" / "deploy" / "sandbox.Dockerfile"
    docker("build", "-f", recipe, "--build-arg", f"BASE={base_image(tmp_path)}", "-t", BUILT, recipe.parent)
    try:
        api.cluster.node.images = dict.fromkeys(api.cluster.node.images, NodeImage(BUILT))
        assert verdicts_of("loopback") == {}
    finally:
        subprocess.run(["docker", "rmi", "-f", BUILT], check=True, capture_output=True)
