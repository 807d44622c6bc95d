"""Fixtures: a stand-in for a cluster that really runs pods."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.stand_in_api import Api, running_cluster
from helpers.stand_in_node import NodeImage, image_of_this_machine

from etude.environments.sandbox.docker import backend as docker
from etude.environments.sandbox.kubernetes.fleet import close_fleet

IMAGE = "registry.example.com/etude-sandbox:1"


@pytest.fixture(scope="session")
def node_image() -> NodeImage:
    """Return an image for pods. Where CI=true a missing engine is a failure."""
    if why_not := docker.probe():
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"docker: {why_not}")
    return image_of_this_machine()


@pytest.fixture
def api(node_image: NodeImage, tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """Run a cluster whose node sees the folders of this machine, and configure the backend for it."""
    role = root / "examples" / "deploy" / "sandbox-pods.yaml"
    with running_cluster(tmp_path, {IMAGE: node_image}, {}, role) as running:
        running.cluster.standard = "privileged"
        monkeypatch.setenv("KUBECONFIG", str(running.kubeconfig()))
        monkeypatch.setenv("ETUDE_KUBERNETES_IMAGE", IMAGE)
        monkeypatch.setenv("ETUDE_KUBERNETES_BINDS", "host")
        monkeypatch.setenv("ETUDE_WARM", "0")
        for name in ("NAMESPACE", "NETWORK", "START", "POD"):
            monkeypatch.delenv(f"ETUDE_KUBERNETES_{name}", raising=False)
        yield running
        close_fleet()
