"""What prevents a sandbox as a pod: each cause is one line with its remedy, and of the right type."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from helpers.sandboxes import in_sandbox, until
from helpers.stand_in_api import Api
from helpers.stand_in_node import with_folder

from etude.environments.sandbox import MIB, Layers, available, open_sandbox
from etude.environments.sandbox.conformance.checking import SMALL
from etude.environments.sandbox.kubernetes.backend import probe
from etude.errors import EngineGone, SandboxError, SandboxUnavailable


def refused(layers: Layers) -> SandboxError:
    """Return the error of opening a sandbox."""
    with pytest.raises(SandboxError) as caught:
        asyncio.run(open_sandbox(layers, SMALL, "kubernetes"))
    assert "\n" not in str(caught.value)
    return caught.value


def test_a_cluster_with_everything_allowed_is_available(api: Api) -> None:
    assert probe() is None and available()["kubernetes"] is None


@pytest.mark.parametrize(
    ("verb", "resource"),
    [
        ("create", "pods"),
        ("get", "pods/attach"),
        pytest.param("watch", "pods", marks=pytest.mark.slow),
        pytest.param("list", "pods", marks=pytest.mark.slow),
    ],
)
def test_what_the_account_may_not_do_is_named_with_the_role(api: Api, layers: Layers, verb: str, resource: str) -> None:
    api.cluster.rules.discard((verb, resource))
    why = probe()
    assert why is not None and f"to {verb} {resource} in the namespace etude" in why and "sandbox-pods.yaml" in why
    error = refused(layers)
    assert isinstance(error, SandboxUnavailable) and "sandbox-pods.yaml" in str(error)
    assert resource.partition("/")[0] in str(error)


def test_a_pod_that_cannot_be_attached_to_is_deleted(api: Api, layers: Layers) -> None:
    api.cluster.rules.discard(("get", "pods/attach"))
    assert isinstance(refused(layers), SandboxUnavailable)
    assert len(api.cluster.created) == 1 and not api.cluster.pods


def test_without_a_configuration_nothing_is_imported_or_asked(
    layers: Layers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    monkeypatch.setenv("ETUDE_KUBERNETES_IMAGE", "image:1")
    why = available()["kubernetes"]
    assert why is not None and why.startswith("no cluster is configured: set KUBECONFIG")
    assert str(refused(Layers(layers.workspace))).endswith(why)


def test_a_kubeconfig_that_cannot_be_read_is_named(
    layers: Layers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kubeconfig").write_text("apiVersion: v1\nkind: Config\ncurrent-context: none\n")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    monkeypatch.setenv("ETUDE_KUBERNETES_IMAGE", "image:1")
    error = refused(Layers(layers.workspace))
    assert isinstance(error, SandboxUnavailable) and "kubectl config view" in str(error)


def test_an_api_that_does_not_answer_is_unavailable(api: Api, layers: Layers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(server="https://127.0.0.1:9")))
    error = refused(layers)
    assert isinstance(error, SandboxUnavailable)
    assert "cannot reach the cluster's API at https://127.0.0.1:9" in str(error) and "cluster-info" in str(error)


@pytest.mark.slow
def test_a_certificate_that_is_not_trusted_is_unavailable(
    api: Api, layers: Layers, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = {"certificate-authority": "/etc/ssl/certs/ca-certificates.crt"}
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(**fields)))
    assert isinstance(error := refused(layers), SandboxUnavailable) and "certificate" in str(error).lower()


def test_credentials_that_are_not_accepted_are_unavailable(api: Api, layers: Layers) -> None:
    api.cluster.token = "another"
    error = refused(layers)
    assert isinstance(error, SandboxUnavailable) and "does not accept the credentials" in str(error)


@pytest.mark.slow
def test_an_image_that_cannot_be_pulled_is_named(api: Api, layers: Layers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETUDE_KUBERNETES_IMAGE", "registry.example.com/absent:1")
    error = refused(layers)
    assert isinstance(error, SandboxUnavailable)
    assert "cannot pull the image registry.example.com/absent:1 (ImagePullBackOff" in str(error)
    assert not api.cluster.pods


@pytest.mark.slow
def test_an_image_that_shows_packages_or_a_writable_file_is_refused(api: Api, layers: Layers) -> None:
    ((name, image),) = api.cluster.node.images.items()
    closed = image.name.partition(":")[0]
    packages = "usr/local/lib/python3.9/site-packages"
    shown = with_folder(image, packages, 0o755, f"{closed}-with-packages", "answer.py")
    writable = with_folder(image, "root", 0o755, f"{closed}-with-open-home")
    said = {}
    for fault, faulty in {"packages": shown, "home": writable}.items():
        api.cluster.node.images = {name: faulty}
        said[fault] = refused(layers)
    assert f"(it shows Python packages in /{packages}): make it with" in str(said["packages"])
    assert "(commands may enter /root): make it with examples/deploy/sandbox.Dockerfile" in str(said["home"])
    assert all(isinstance(error, SandboxUnavailable) for error in said.values())


@pytest.mark.slow
def test_a_runtime_that_keeps_the_interfaces_up_is_unavailable(
    api: Api, layers: Layers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ETUDE_KUBERNETES_NETWORK", "loopback")
    api.cluster.node.withheld = {"NET_ADMIN"}
    error = refused(layers)
    assert isinstance(error, SandboxUnavailable) and "Operation not permitted" in str(error)
    assert str(error).endswith("set ETUDE_KUBERNETES_NETWORK=none")
    until(lambda: not api.cluster.pods)


@pytest.mark.slow
def test_a_pod_without_a_node_is_an_error_with_the_scheduler_s_words(
    api: Api, layers: Layers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ETUDE_KUBERNETES_START", "1")
    api.cluster.memory = 100 * MIB
    error = refused(layers)
    assert not isinstance(error, SandboxUnavailable)
    assert "no node takes the pod" in str(error) and "0/1 nodes are available: 1 Insufficient memory" in str(error)
    until(lambda: not api.cluster.pods)


@pytest.mark.slow
def test_a_folder_that_the_node_lacks_is_told_by_its_events(
    api: Api, layers: Layers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ETUDE_KUBERNETES_START", "1")
    bound = layers.binds["/opt/etude/env"]
    monkeypatch.setenv("ETUDE_KUBERNETES_BINDS", f"claim:cache:{bound.parent}")
    api.cluster.node.claims = {"cache": tmp_path}
    error = refused(layers)
    assert isinstance(error, SandboxUnavailable) and "FailedMount: MountVolume.SetUp failed" in str(error)


def test_a_namespace_that_admits_no_such_pod_is_named(api: Api, layers: Layers) -> None:
    api.cluster.standard = "restricted"
    error = refused(layers)
    assert isinstance(error, SandboxUnavailable)
    assert 'violates PodSecurity "restricted:latest"' in str(error) and "kubectl label namespace etude" in str(error)


def test_a_spent_quota_is_an_error_and_not_unavailable(api: Api, layers: Layers) -> None:
    api.cluster.quota = 0
    error = refused(layers)
    assert not isinstance(error, SandboxUnavailable) and "exceeded quota" in str(error)


@pytest.mark.slow
def test_an_api_that_fails_once_is_asked_again(api: Api, layers: Layers) -> None:
    in_sandbox(layers, lambda sandbox: sandbox.exec("true"), SMALL, "kubernetes")
    api.cluster.broken = 1
    again = in_sandbox(layers, lambda sandbox: sandbox.exec("echo ok"), SMALL, "kubernetes")
    assert again.output == b"ok\n"
    api.cluster.broken = 100
    assert isinstance(error := refused(layers), EngineGone | SandboxUnavailable) and "leader changed" in str(error)
    api.cluster.broken = 0
