"""The files of examples/deploy for Kubernetes and Docker Compose: validators, and numbers that must agree."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from helpers.programs import program

from etude.environments.sandbox.docker.image import PREPARE
from etude.environments.sandbox.kubernetes.cluster import VERBS
from etude.environments.sandbox.kubernetes.pod import LABEL
from etude.server.serving import SHUTDOWN_S
from etude.server.workers.place import REPLICA
from etude.server.workers.totals import ANSWER_S


@pytest.fixture(scope="module")
def folder(root: Path) -> Path:
    return root / "examples" / "deploy"


def kubernetes_objects(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    documents = list(yaml.safe_load_all((folder / "kubernetes.yaml").read_text()))
    return {(document["kind"], document["metadata"]["name"]): document for document in documents}


def test_kubernetes_schemas_accept_the_objects(folder: Path) -> None:
    objects = kubernetes_objects(folder)
    assert len(objects) == 6
    for document in objects.values():
        kubernetes_validate.validate(document, "1.31", strict=True)


def test_pods_are_probed_and_drained_and_have_names_that_tokens_carry(folder: Path) -> None:
    objects = kubernetes_objects(folder)
    pods, service = objects["StatefulSet", "etude"]["spec"], objects["Service", "etude"]["spec"]
    pod = pods["template"]["spec"]
    (server,) = pod["containers"]
    variables = {variable["name"]: variable for variable in server["env"]}
    assert variables["ETUDE_REPLICA"]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"
    assert all(REPLICA.fullmatch(f"etude-{number}") for number in range(pods["replicas"]))
    assert pod["terminationGracePeriodSeconds"] >= float(variables["ETUDE_DRAIN"]["value"]) + SHUTDOWN_S
    assert {name: server[name]["httpGet"]["path"] for name in ("startupProbe", "readinessProbe", "livenessProbe")} == {
        "startupProbe": "/healthz",
        "readinessProbe": "/readyz",
        "livenessProbe": "/healthz",
    }
    assert server["livenessProbe"]["timeoutSeconds"] > ANSWER_S
    assert service["selector"] == pods["selector"]["matchLabels"] == pods["template"]["metadata"]["labels"]
    assert service["clusterIP"] == "None" and pods["serviceName"] == "etude"
    budget = objects["PodDisruptionBudget", "etude"]["spec"]["selector"]["matchLabels"]
    assert budget == service["selector"]
    assert {port["containerPort"] for port in server["ports"]} == {port["port"] for port in service["ports"]}
    mounts = {mount["name"] for mount in server["volumeMounts"]}
    assert mounts == {volume["name"] for volume in pod["volumes"]}
    assert variables["ETUDE_STORE"]["valueFrom"]["secretKeyRef"]["key"] == "store"


def test_the_cluster_s_balancer_names_every_pod_and_haproxy_accepts_it(folder: Path, tmp_path: Path) -> None:
    objects = kubernetes_objects(folder)
    text = objects["ConfigMap", "etude-balancer"]["data"]["haproxy.cfg"]
    replicas = objects["StatefulSet", "etude"]["spec"]["replicas"]
    servers = [line.split()[1:] for line in text.splitlines() if line.strip().startswith("server ")]
    assert servers == [[f"etude-{number}", f"etude-{number}.etude:8000"] for number in range(replicas)]
    shared = [line.strip() for line in text.splitlines() if "txn." in line]
    assert shared == [line.strip() for line in (folder / "haproxy.cfg").read_text().splitlines() if "txn." in line]
    (tmp_path / "haproxy.cfg").write_text(text)
    command = [program("haproxy", "haproxy"), "-c", "-f", str(tmp_path / "haproxy.cfg")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_pods_of_sandboxes_have_the_rights_and_the_wall_that_the_backend_counts_on(folder: Path) -> None:
    documents = list(yaml.safe_load_all((folder / "sandbox-pods.yaml").read_text()))
    for document in documents:
        kubernetes_validate.validate(document, "1.31", strict=True)
    objects = {document["kind"]: document for document in documents}
    assert set(objects) == {"ServiceAccount", "Role", "RoleBinding", "NetworkPolicy"}
    granted = {resource: set(rule["verbs"]) for rule in objects["Role"]["rules"] for resource in rule["resources"]}
    assert granted == {**{resource: set(verbs) for resource, verbs in VERBS.items()}, "events": {"list"}}
    assert objects["RoleBinding"]["subjects"][0]["name"] == objects["ServiceAccount"]["metadata"]["name"]
    policy = objects["NetworkPolicy"]["spec"]
    assert policy["podSelector"]["matchLabels"] == {LABEL: "1"}
    assert sorted(policy["policyTypes"]) == ["Egress", "Ingress"] and not {"egress", "ingress"} & set(policy)


def test_the_image_of_pods_is_prepared_as_docker_s_is(folder: Path) -> None:
    prepared = PREPARE.format(base="${BASE}").partition("RUN ")[2]
    assert (folder / "sandbox.Dockerfile").read_text().endswith(f"RUN {prepared}")


def test_compose_accepts_the_file_and_servers_have_time_to_drain(folder: Path) -> None:
    secrets = {"ETUDE_API_KEY": "k" * 32, "POSTGRES_PASSWORD": "secret"}
    command = [program("docker-compose", "docker-compose"), "-f", str(folder / "compose.yaml"), "config"]
    missing = subprocess.run(command, capture_output=True, text=True, env=without(secrets))
    assert missing.returncode != 0 and "set it in .env" in missing.stderr
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **secrets})
    assert done.returncode == 0, done.stderr
    services = yaml.safe_load(done.stdout)["services"]
    assert set(services) == {"blue", "green", "balancer", "store"}
    for name in ("blue", "green"):
        settings = services[name]["environment"]
        assert settings["ETUDE_REPLICA"] == name and settings["ETUDE_STORE"].startswith("postgresql://etude:secret@")
        assert seconds(services[name]["stop_grace_period"]) >= float(settings["ETUDE_DRAIN"]) + SHUTDOWN_S
        assert "/healthz" in " ".join(services[name]["healthcheck"]["test"])
    assert services["balancer"]["environment"]["ETUDE_BLUE"] == "blue:8000"


def without(names: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in names}


def seconds(text: str) -> float:
    """Return the seconds of a duration such as 11m0s."""
    minutes, _, rest = text.partition("m")
    return 60 * float(minutes) + float(rest.rstrip("s") or 0)
