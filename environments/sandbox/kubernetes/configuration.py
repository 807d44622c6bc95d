"""Which cluster is meant: a kubeconfig, or the account of the pod in which the server runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ....errors import SandboxUnavailable
from .pod_status import line

ROLE_FILE = "examples/deploy/sandbox-pods.yaml"
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_POOL = 64


def check_configured() -> None:
    """Raise SandboxUnavailable where there is neither a kubeconfig nor an account of a pod; looks at files alone."""
    if not _kubeconfigs() and not _is_in_cluster():
        raise SandboxUnavailable(
            "no cluster is configured: set KUBECONFIG to a kubeconfig, or run in a pod with the ServiceAccount of "
            f"{ROLE_FILE}"
        )


def _kubeconfigs() -> list[str]:
    named = os.environ.get("KUBECONFIG") or os.path.expanduser("~/.kube/config")
    return [path for path in named.split(os.pathsep) if path and os.path.exists(path)]


def _is_in_cluster() -> bool:
    return "KUBERNETES_SERVICE_HOST" in os.environ and (_ACCOUNT / "token").exists()


def load_configuration() -> tuple[Any, str]:
    """Return the client's configuration and the namespace that comes with it. Raises SandboxUnavailable."""
    check_configured()
    try:
        from kubernetes import client, config
    except ImportError as error:
        raise SandboxUnavailable(
            f"the kubernetes client is not installed: pip install 'etude[kubernetes]' ({error})"
        ) from error
    configuration = client.Configuration()
    # A server that is gone must not cost the minute that many attempts take.
    configuration.retries = 1
    configuration.connection_pool_maxsize = _POOL
    try:
        if files := os.pathsep.join(_kubeconfigs()):
            config.load_kube_config(files, client_configuration=configuration)
            context = config.list_kube_config_contexts(files)[1].get("context") or {}
            return configuration, context.get("namespace") or ""
        config.load_incluster_config(client_configuration=configuration)
    except (config.ConfigException, OSError, ValueError, TypeError, AttributeError) as error:
        raise SandboxUnavailable(
            f"the cluster's configuration cannot be used ({line(error)}): check it with `kubectl config view`"
        ) from error
    return configuration, (_ACCOUNT / "namespace").read_text("utf-8").strip()
