"""The manifest of a pod: what it asks of a cluster, and what an operator may add."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from etude.environments.sandbox import Layers
from etude.environments.sandbox.conformance.checking import SMALL
from etude.environments.sandbox.kubernetes.pod import pod_manifest
from etude.environments.sandbox.kubernetes.settings import read_settings
from etude.errors import SandboxError, SandboxUnavailable

# https://kubernetes.io/docs/concepts/security/pod-security-standards: what "baseline" lets a container add.
BASELINE = set("CHOWN DAC_OVERRIDE FOWNER FSETID KILL NET_BIND_SERVICE SETFCAP SETGID SETPCAP SETUID".split())


@pytest.fixture(autouse=True)
def configured(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NAMESPACE", "NETWORK", "START", "POD", "BINDS"):
        monkeypatch.delenv(f"ETUDE_KUBERNETES_{name}", raising=False)
    monkeypatch.setenv("ETUDE_KUBERNETES_IMAGE", "image:1")
    monkeypatch.setenv("ETUDE_KUBERNETES_BINDS", "host")


def manifest_of(layers: Layers) -> dict[str, Any]:
    made = pod_manifest(read_settings(), layers, SMALL, 5000, "owner")
    made["metadata"]["name"] = "etude-sandbox-1"
    return made


def container_of(layers: Layers) -> dict[str, Any]:
    (container,) = manifest_of(layers)["spec"]["containers"]
    return dict(container)


def written(folder: Path, text: str) -> str:
    (folder / "pod.yaml").write_text(text)
    return str(folder / "pod.yaml")


@pytest.mark.parametrize("network", ["none", "loopback"])
def test_the_published_schema_accepts_a_pod(layers: Layers, network: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETUDE_KUBERNETES_NETWORK", network)
    kubernetes_validate.validate(manifest_of(layers), "1.31", strict=True)


def test_a_pod_is_hardened_and_fits_the_baseline_standard(layers: Layers) -> None:
    pod, container = manifest_of(layers)["spec"], container_of(layers)
    rights = container["securityContext"]
    assert rights["capabilities"]["drop"] == ["ALL"]
    assert set(rights["capabilities"]["add"]) == {"CHOWN", "KILL", "SETGID", "SETUID"} <= BASELINE
    assert rights["readOnlyRootFilesystem"] and rights["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not rights["allowPrivilegeEscalation"] and not rights["privileged"]
    assert not any(pod[name] for name in ("hostIPC", "hostNetwork", "hostPID", "shareProcessNamespace"))
    assert not pod["automountServiceAccountToken"] and not pod["enableServiceLinks"]
    assert pod["restartPolicy"] == "Never" and pod["activeDeadlineSeconds"] > 0


def test_limits_become_requests_limits_and_sizes(layers: Layers) -> None:
    container, volumes = container_of(layers), manifest_of(layers)["spec"]["volumes"]
    assert container["resources"]["limits"] == container["resources"]["requests"]
    assert container["resources"]["limits"]["cpu"] == "1000m"
    assert SMALL.memory < int(container["resources"]["limits"]["memory"]) <= SMALL.memory + (64 << 20)
    sizes = {volume["name"]: volume["emptyDir"] for volume in volumes if "emptyDir" in volume}
    assert {name: one["medium"] for name, one in sizes.items()} == dict.fromkeys(("workspace", "tmp", "shm"), "Memory")
    assert int(sizes["tmp"]["sizeLimit"]) == int(sizes["shm"]["sizeLimit"]) == SMALL.disk
    assert SMALL.disk < int(sizes["workspace"]["sizeLimit"]) <= 2 * SMALL.disk
    writable = [mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")]
    assert writable == ["/dev/shm", "/tmp", "/workspace"]


def test_the_kubelet_finds_nothing_to_expand_in_the_program(layers: Layers) -> None:
    container = container_of(layers)
    assert "$" not in "".join([*container["command"], *container["args"]])
    assert len(json.dumps(manifest_of(layers))) < 100_000


def test_a_pod_serves_every_workspace_of_about_its_size(layers: Layers) -> None:
    settings = read_settings()
    made = [json.dumps(pod_manifest(settings, layers, SMALL, size, "owner")) for size in (10, 1 << 19, 1 << 22)]
    assert made[0] == made[1] != made[2]


def test_folders_come_from_a_claim_that_the_server_has_mounted(layers: Layers, monkeypatch: pytest.MonkeyPatch) -> None:
    bound = layers.binds["/opt/etude/env"].resolve()
    monkeypatch.setenv("ETUDE_KUBERNETES_BINDS", f"claim:cache:{bound.parent}")
    volumes = manifest_of(layers)["spec"]["volumes"]
    claim = {"persistentVolumeClaim": {"claimName": "cache", "readOnly": True}, "name": "binds"}
    assert claim in volumes and not any("hostPath" in volume for volume in volumes)
    mount = {"name": "binds", "mountPath": "/opt/etude/env", "subPath": "bound", "readOnly": True}
    assert mount in container_of(layers)["volumeMounts"]


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("", "pods cannot see /.*/bound: set ETUDE_KUBERNETES_BINDS to claim:NAME:/FOLDER"),
        ("claim:cache:/mnt/elsewhere", "not below /mnt/elsewhere, where the claim cache is mounted; set ETUDE_CACHE"),
        ("claim:cache", "is neither 'host' nor 'claim:NAME:/FOLDER'"),
        ("claim:cache:relative", "is neither 'host' nor 'claim:NAME:/FOLDER'"),
    ],
)
def test_a_folder_that_pods_cannot_see_is_an_error_with_the_remedy(
    layers: Layers, setting: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ETUDE_KUBERNETES_BINDS", setting)
    with pytest.raises(SandboxError, match=why):
        manifest_of(layers)


def test_packages_of_a_bound_interpreter_are_hidden(layers: Layers, tmp_path: Path) -> None:
    packages = tmp_path / "python" / "lib" / "python3.12" / "site-packages"
    packages.mkdir(parents=True)
    binds = {**layers.binds, "/opt/etude/python": tmp_path / "python"}
    container = container_of(Layers(layers.workspace, binds))
    hidden = [mount for mount in container["volumeMounts"] if mount["name"] == "hidden"]
    path = "/opt/etude/python/lib/python3.12/site-packages"
    assert hidden == [{"name": "hidden", "mountPath": path, "readOnly": True}]


def test_an_operator_adds_where_and_how_pods_run(
    layers: Layers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """
metadata: {labels: {team: a, etude.sandbox: other}}
spec:
  runtimeClassName: gvisor
  nodeSelector: {pool: sandboxes}
  activeDeadlineSeconds: 600
"""
    monkeypatch.setenv("ETUDE_KUBERNETES_POD", written(tmp_path, text))
    made = manifest_of(layers)
    kubernetes_validate.validate(made, "1.31", strict=True)
    assert made["metadata"]["labels"] == {"team": "a", "etude.sandbox": "1", "etude.owner": "owner"}
    assert made["spec"]["runtimeClassName"] == "gvisor" and made["spec"]["nodeSelector"] == {"pool": "sandboxes"}
    assert made["spec"]["activeDeadlineSeconds"] == 600
    assert read_settings().runtime == "gvisor"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("spec: {hostNetwork: true}", "may not set spec.hostNetwork; it may set activeDeadlineSeconds"),
        ("spec: {containers: []}", "may not set spec.containers"),
        ("metadata: {name: x}", "may not set metadata.name"),
        ("kind: Pod", "may not set kind; it may set metadata, spec"),
        ("[]", "is not a mapping"),
        ("spec: 1", "spec of .* is not a mapping"),
        ("a: [", "cannot read ETUDE_KUBERNETES_POD"),
        (None, "cannot read ETUDE_KUBERNETES_POD"),
    ],
)
def test_an_operator_cannot_weaken_a_pod(
    tmp_path: Path, text: str | None, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, text) if text is not None else str(tmp_path / "absent.yaml")
    monkeypatch.setenv("ETUDE_KUBERNETES_POD", path)
    with pytest.raises(SandboxError, match=why):
        read_settings()


@pytest.mark.parametrize(
    ("name", "value", "kind", "why"),
    [
        ("IMAGE", "", SandboxUnavailable, "ETUDE_KUBERNETES_IMAGE is not set: name an image made with"),
        ("NETWORK", "host", SandboxError, "choose one of none, loopback"),
        ("START", "soon", SandboxError, "'soon' is not a positive number of seconds"),
        ("START", "-1", SandboxError, "not a positive number"),
    ],
)
def test_a_bad_setting_is_named(
    name: str, value: str, kind: type[Exception], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"ETUDE_KUBERNETES_{name}", value)
    with pytest.raises(kind, match=why):
        read_settings()
