"""The Kubernetes manifest of examples/launch; ``trainers/test_launchers.py`` runs the commands of all launchers."""

from __future__ import annotations

from pathlib import Path

import kubernetes_validate
from helpers.launch_files import kubernetes_objects


def test_kubernetes_objects_are_wired_to_each_other(root: Path) -> None:
    objects = kubernetes_objects(root)
    service, job = objects["Service"], objects["Job"]
    name, spec = job["metadata"]["name"], job["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    variables = {variable["name"]: variable["value"] for variable in container["env"]}
    assert service["spec"]["clusterIP"] == "None" and service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": name}  # the label that a Job gives its pods
    assert pod["subdomain"] == service["metadata"]["name"]
    assert variables["MASTER"] == f"{name}-0.{service['metadata']['name']}"  # the first pod's host name
    assert spec["completionMode"] == "Indexed"
    assert int(variables["NNODES"]) == spec["completions"] == spec["parallelism"]
    assert variables["NPROC"] == container["resources"]["limits"]["nvidia.com/gpu"]
    ports = {container["ports"][0]["containerPort"], service["spec"]["ports"][0]["port"]}
    assert ports == {29500} and "--master-port 29500" in container["args"][0]
    mounts = {mount["name"] for mount in container["volumeMounts"]}
    assert mounts == {volume["name"] for volume in pod["volumes"]}
    assert pod["restartPolicy"] == "Never" and spec["backoffLimit"] == 0


def test_kubernetes_schemas_accept_the_objects(root: Path) -> None:
    for document in kubernetes_objects(root).values():
        kubernetes_validate.validate(document, "1.31", strict=True)
