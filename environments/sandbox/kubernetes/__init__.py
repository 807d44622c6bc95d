"""The kubernetes backend: a pod per sandbox.

Reading order: ``settings`` (the environment variables), ``pod`` (what a pod is), ``cluster`` (the API), ``pod_status``
(what a pod's status says), ``attach`` (the connection with its worker), ``fleet`` (the pods of this process),
``backend``.
"""
