"""The format ``nemotron``: rows for NeMo Gym, which wrap rows of the other formats.

Three shapes exist (repository NVIDIA-NeMo/Gym): ``responses_api_agents/swe_agents/data/example.jsonl`` keeps the whole
row as JSON text in ``responses_create_params.metadata.instance_dict``, with ``dataset_name`` beside it;
``resources_servers/swerl_gen/data/example.jsonl`` keeps it in ``instance``; ``resources_servers/swebench`` and
``responses_api_agents/mini_swe_agent`` add ``responses_create_params`` to it. The row inside is read by its own
format. Names in lower case (``fail_to_pass``) are those of the ``nv-internal-1`` rows (``swe_agents/app.py``).

Rows of patches without execution (``golden_patch`` and ``prompt``, no commit) cannot become tasks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..instance import Instance
from . import r2e_gym, swe_bench, swe_gym, swe_rebench, swe_smith
from .fields import Format, Row

_INNER = (r2e_gym.FORMAT, swe_smith.FORMAT, swe_rebench.FORMAT, swe_gym.FORMAT)
_RENAMED = {"golden_patch": "patch", "fail_to_pass": "FAIL_TO_PASS", "pass_to_pass": "PASS_TO_PASS"}


def recognises(row: Mapping[str, Any]) -> bool:
    """Return whether a row wraps another, or is one of patches without execution."""
    return any(name in row for name in ("responses_create_params", "golden_patch")) or (
        isinstance(row.get("instance"), Mapping) and "instance_id" in row["instance"]
    )


def leaves_out(row: Mapping[str, Any]) -> str:
    """Return why the format of the row inside leaves it out."""
    try:
        inner = _unwrap(Row(row, "", "nemotron"))
    except ValueError:
        return ""  # ``read`` says what is wrong with it
    return inner_format(inner).leaves_out(inner)


def read(values: Mapping[str, Any], place: str) -> Instance:
    """Return the instance of the row inside. Raises RowError."""
    row = Row(values, place, "nemotron")
    try:
        inner = _unwrap(row)
    except ValueError as error:
        raise row.error(
            f"has an instance_dict that is not JSON ({error})", "write the row's JSON object there"
        ) from error
    chosen = inner_format(inner)
    if chosen is swe_bench.FORMAT and not (inner.get("repo") and inner.get("base_commit")):
        raise row.error("names no repo and base_commit", "name the data set that its row came from: it has them")
    instance = chosen.read(inner, place)
    return replace(instance, dataset=Row(inner, place, "nemotron").optional("dataset_name").rpartition("/")[2])


def _unwrap(row: Row) -> Mapping[str, Any]:
    """Return the row inside, with the names of SWE-bench. Raises ValueError for text that is not a JSON object."""
    request = row.values.get("responses_create_params")
    metadata = request.get("metadata") if isinstance(request, Mapping) else None
    beside = metadata if isinstance(metadata, Mapping) else {}
    inner = beside.get("instance_dict") or row.values.get("instance") or row.values.get("instance_dict") or {}
    if isinstance(inner, str):
        inner = json.loads(inner)
    if not isinstance(inner, Mapping):
        raise ValueError(f"it is {type(inner).__name__}")
    wrappers = ("responses_create_params", "instance", "instance_dict", "metadata", "agent_ref")
    merged = {name: value for name, value in row.values.items() if name not in wrappers}
    merged |= {name: value for name, value in beside.items() if name not in wrappers}
    merged |= inner
    for name, usual in _RENAMED.items():
        if name in merged and merged.get(usual) is None:
            merged[usual] = merged[name]
    return merged


def inner_format(row: Mapping[str, Any]) -> Format:
    """Return the format of a row that another one wraps: SWE-bench's unless another recognises it."""
    return next((chosen for chosen in _INNER if chosen.recognises(row)), swe_bench.FORMAT)


FORMAT = Format(recognises, read, leaves_out)
"""NeMo Gym's SWE rows: a row of another format and a request to a model."""
