"""The API of a cluster, through the official client: pods by their names, as plain dictionaries."""

from __future__ import annotations

import contextlib
import json
import math
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from ....errors import EngineGone, SandboxError, SandboxUnavailable
from .configuration import ROLE_FILE, load_configuration
from .pod import CONTAINER, LABEL, OWNER
from .pod_status import is_leftover, line, utc_now

# By resource: what the backend does with it.
VERBS: Mapping[str, tuple[str, ...]] = {
    "pods": ("create", "delete", "get", "list", "watch"),
    "pods/attach": ("create", "get"),
}
_TIMEOUT_S = (5, 30)
_WATCH_S = 20
# Answers as the cluster wrote them: the client's models are slow, and know the fields of one version.
_PLAIN: Mapping[str, Any] = {"_request_timeout": _TIMEOUT_S, "_preload_content": False}


@dataclass(frozen=True)
class Address:
    """Where and how to open a WebSocket."""

    url: str
    headers: Mapping[str, str]
    context: ssl.SSLContext | None
    server_name: str | None
    proxy: str | None


class Cluster:
    """A connection to the API of one cluster. Safe to use from several threads."""

    def __init__(self, namespace: str) -> None:
        """Read the configuration, without any request. Raises SandboxUnavailable without one."""
        self._configuration, own_namespace = load_configuration()
        from kubernetes import client

        self._client = client.ApiClient(self._configuration)
        # Its methods also take a dictionary, and return what the cluster wrote.
        self._core: Any = client.CoreV1Api(self._client)
        self.namespace = namespace or own_namespace or "default"

    @property
    def host(self) -> str:
        return str(self._configuration.host)

    def check_connection(self) -> None:
        """Ask for the version. Raises SandboxUnavailable when the API does not answer."""
        from kubernetes import client

        try:
            with self.errors("get", "version"):
                _content(client.VersionApi(self._client).get_code(**_PLAIN))
        except EngineGone as error:
            raise SandboxUnavailable(f"{error}; check it with `kubectl cluster-info`") from error

    def forbidden(self) -> str | None:
        """Return the first thing that this account may not do with pods, with the remedy; None when it may do all."""
        from kubernetes import client

        reviews: Any = client.AuthorizationV1Api(self._client)
        for resource, verbs in VERBS.items():
            name, _, subresource = resource.partition("/")
            for verb in verbs:
                requested = {"namespace": self.namespace, "verb": verb, "resource": name, "subresource": subresource}
                body = {"spec": {"resourceAttributes": requested}}
                with self.errors("create", "selfsubjectaccessreviews"):
                    review = _content(reviews.create_self_subject_access_review(body, **_PLAIN))
                if not review["status"]["allowed"]:
                    return _not_allowed(verb, resource, self.namespace)
        return None

    def create(self, manifest: Mapping[str, Any], name: str) -> None:
        """Create a pod. Raises SandboxError when the cluster refuses it."""
        named = {**manifest, "metadata": {**manifest["metadata"], "name": name}}
        with self.errors("create", "pods"):
            _content(self._core.create_namespaced_pod(self.namespace, named, **_PLAIN))

    def pod(self, name: str) -> dict[str, Any] | None:
        """Return a pod, None when it does not exist."""
        from kubernetes.client import ApiException

        with self.errors("get", "pods"):
            try:
                pod: dict[str, Any] = _content(self._core.read_namespaced_pod(name, self.namespace, **_PLAIN))
                return pod
            except ApiException as error:
                if error.status == 404:
                    return None
                raise

    def watch(self, name: str, seconds: float) -> Iterator[dict[str, Any] | None]:
        """Yield a pod each time it changes, None when it is deleted; ends after ``seconds``, or earlier."""
        from kubernetes.watch.watch import iter_resp_lines

        limit = math.ceil(min(seconds, _WATCH_S))
        options = {**_PLAIN, "_request_timeout": (_TIMEOUT_S[0], limit + 10), "timeout_seconds": limit}
        with self.errors("watch", "pods"):
            answer = self._core.list_namespaced_pod(
                self.namespace, field_selector=f"metadata.name={name}", watch=True, **options
            )
            try:
                _check(answer)
                for text in filter(None, iter_resp_lines(answer)):
                    event = json.loads(text)
                    if event["type"] == "ERROR":  # the cluster has forgotten where this began; the caller begins again
                        return
                    yield None if event["type"] == "DELETED" else event["object"]
            finally:
                answer.close()
                answer.release_conn()

    def warning(self, name: str) -> str:
        """Return the last warning about a pod, empty when there is none or events may not be read."""
        selector = f"involvedObject.kind=Pod,involvedObject.name={name},type=Warning"
        try:
            with self.errors("list", "events"):
                answer = self._core.list_namespaced_event(self.namespace, field_selector=selector, **_PLAIN)
                events = _content(answer)["items"]
        except SandboxError:
            return ""
        return f"{events[-1].get('reason', '')}: {line(events[-1].get('message', ''))}" if events else ""

    def delete(self, name: str) -> bool:
        """Delete a pod; return False when it was gone."""
        from kubernetes.client import ApiException

        with self.errors("delete", "pods"):
            try:
                _content(self._core.delete_namespaced_pod(name, self.namespace, **_PLAIN))
            except ApiException as error:
                if error.status in (404, 409):
                    return False
                raise
        return True

    def remove_leftovers(self) -> list[str]:
        """Delete the pods of all servers that are of no use any more, and return their names."""
        now = utc_now()
        names = [pod["metadata"]["name"] for pod in self._labelled(f"{LABEL}=1") if is_leftover(pod, now)]
        return [name for name in names if self.delete(name)]

    def remove_owned(self, owner: str) -> list[str]:
        """Delete every pod of an owner, and return their names."""
        names = [pod["metadata"]["name"] for pod in self._labelled(f"{LABEL}=1,{OWNER}={owner}")]
        return [name for name in names if self.delete(name)]

    def _labelled(self, selector: str) -> list[dict[str, Any]]:
        with self.errors("list", "pods"):
            answer = self._core.list_namespaced_pod(self.namespace, label_selector=selector, **_PLAIN)
            pods: list[dict[str, Any]] = _content(answer)["items"]
        return pods

    def attach_address(self, name: str) -> Address:
        """Return where the worker of a pod can be spoken to."""
        configuration = self._configuration
        streams = {"container": CONTAINER, "stdin": "true", "stdout": "true", "stderr": "true"}
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}/attach?{urlencode(streams)}"
        # It reads a token again when the old one has expired.
        settings = configuration.auth_settings().values()
        headers = {one["key"]: one["value"] for one in settings if one["in"] == "header" and one["value"]}
        context = None
        if self.host.startswith("https:"):
            context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
            # The certificates of many clusters lack what Python 3.13 asks of a certificate by default.
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
            if not configuration.verify_ssl or configuration.assert_hostname is False:
                context.check_hostname = False
            if not configuration.verify_ssl:
                context.verify_mode = ssl.CERT_NONE
            if configuration.cert_file:
                context.load_cert_chain(configuration.cert_file, configuration.key_file)
        url = f"ws{self.host.removeprefix('http')}{path}"
        return Address(url, headers, context, configuration.tls_server_name, configuration.proxy)

    @contextlib.contextmanager
    def errors(self, verb: str, resource: str) -> Iterator[None]:
        """Turn whatever the client raises into a SandboxError of one line."""
        import urllib3
        from kubernetes.client import ApiException

        try:
            yield
        except ApiException as error:
            if not error.status:  # no answer at all, such as a certificate that is not trusted
                raise EngineGone(f"cannot reach the cluster's API at {self.host} ({line(error.reason)})") from error
            raise self.refusal(verb, resource, error.status, error.body or str(error.reason)) from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise EngineGone(f"cannot reach the cluster's API at {self.host} ({line(error)})") from error

    def refusal(self, verb: str, resource: str, status: int, body: str | bytes) -> SandboxError:
        """Return the error that an answer of the API means."""
        message = _message(body)
        if status == 401:
            return SandboxUnavailable(
                f"the cluster's API at {self.host} does not accept the credentials ({message}): renew those of the "
                "kubeconfig or of the ServiceAccount"
            )
        if status == 403:
            return self._forbidden(verb, resource, message)
        if status == 404 and "namespaces" in message:
            return SandboxUnavailable(f"{message}: kubectl create namespace {self.namespace}")
        if status in (400, 422):
            return SandboxError(f"the cluster does not understand the pod: {message}")
        if status == 429 or status >= 500:
            return EngineGone(f"the cluster's API at {self.host} failed ({status}: {message})")
        return SandboxError(f"the cluster refuses to {verb} {resource}: {message} ({status})")

    def _forbidden(self, verb: str, resource: str, message: str) -> SandboxError:
        if "PodSecurity" in message:
            return SandboxUnavailable(
                f"the namespace {self.namespace} does not admit the pod ({message}): kubectl label namespace "
                f"{self.namespace} pod-security.kubernetes.io/enforce=baseline --overwrite; ETUDE_KUBERNETES_NETWORK="
                "loopback needs 'privileged'"
            )
        if "exceeded quota" in message:
            return SandboxError(f"{message}: raise the quota, or keep fewer sandboxes open")
        if "admission webhook" in message or "LimitRange" in message or "maximum" in message:
            return SandboxUnavailable(f"the cluster does not admit the pod ({message}): ask its administrators")
        return SandboxUnavailable(f"{_not_allowed(verb, resource, self.namespace)} ({message})")


def _content(answer: Any) -> Any:
    """Return the content of an answer. Raises ApiException for a refusal."""
    _check(answer)
    return json.loads(answer.data)


def _check(answer: Any) -> None:
    from kubernetes.client import ApiException

    if not 200 <= answer.status <= 299:
        error = ApiException(status=answer.status, reason=answer.reason)
        error.body = answer.data
        raise error


def _message(body: str | bytes) -> str:
    """Return the message of a Status, or the text itself."""
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    try:
        status = json.loads(text)
    except ValueError:
        return line(text)
    return line(status.get("message", text) if isinstance(status, dict) else text)


def _not_allowed(verb: str, resource: str, namespace: str) -> str:
    return (
        f"the cluster does not allow this account to {verb} {resource} in the namespace {namespace}: kubectl apply "
        f"--namespace {namespace} --filename {ROLE_FILE}"
    )
