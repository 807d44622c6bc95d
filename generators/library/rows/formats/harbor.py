"""The format ``harbor``: folders with ``task.toml``, ``instruction.md``, ``environment/``, ``solution/``, ``tests/``.

A folder becomes an instance when it names a commit of a public repository, in one of these ways. ``tests/config.json``
holds a whole row of another format (Harbor's SWE-bench adapter: repository PrimeIntellect-ai/verifiers,
``verifiers/legacy/envs/experimental/composable/tasksets/swe/swe_bench/taskset.py``). ``[metadata]`` has
``repository_url`` and ``base_commit_hash``, with ``solution/solution.patch`` and ``tests/test.patch`` (repository
NVIDIA-NeMo/Gym, ``responses_api_agents/swe_agents/deepswe_dataprocessor.py``). Otherwise ``environment/Dockerfile``
clones the repository and checks the commit out, and ``solve.sh`` and ``test.sh`` hold the diffs as here-documents.

The verifier of the folder is not run: it needs its container. Tests are those of the test patch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ..instance import Instance
from .fields import Format, Row, lacks, not_python
from .install_config import stated_environment
from .nemotron import inner_format

FILES = "files"
"""Column of a folder's row: relative path -> text."""
_HERE_DOCUMENT = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?[^\n]*\n(.*?)^\s*\1\s*$", re.DOTALL | re.MULTILINE)
_CLONE = re.compile(r"git clone[^\n]*?(?:https?://|git@)[\w.-]+[/:]([\w.-]+/[\w.-]+?)(?:\.git)?(?=[\s'\"/]|$)")
_CHECKOUT = re.compile(r"git (?:checkout|reset --hard|switch --detach)\s+(?:--quiet |-q |-f )*['\"]?([0-9a-f]{7,40})\b")
_SAID = re.compile(r"\*\*(Repo|Base commit|Instance ID):\*\*\s*`([^`]+)`")
OWN_VERIFIER = "a verifier of its own, tests/test.sh, which is not run"


def recognises(row: Mapping[str, Any]) -> bool:
    """Return whether a row is a folder with a ``task.toml``."""
    return "task.toml" in row


def leaves_out(row: Mapping[str, Any]) -> str:
    """Return ``not Python`` for a folder whose ``task.toml`` or diffs say another language."""
    language = str(row["task.toml"].get("metadata", {}).get("language", ""))
    files = row[FILES]
    return not_python({"language": language, "patch": _patch(files, "solution"), "test_patch": _patch(files, "tests")})


def read(values: Mapping[str, Any], place: str) -> Instance:
    """Return the instance of a folder. Raises RowError when it names no repository, commit or solution."""
    row = Row(values, place, "harbor")
    files: Mapping[str, str] = values[FILES]
    if inner := _inner(row, files):
        image = values["task.toml"].get("environment", {}).get("docker_image", "")
        return inner_format(inner).read({"image": image, **inner}, f"{place}/tests/config.json")
    metadata = values["task.toml"].get("metadata", {})
    stated = dict(_SAID.findall(files.get("instruction.md", "")))
    dockerfile = files.get("environment/Dockerfile", "")
    clone, checkout = _CLONE.search(dockerfile), _CHECKOUT.search(dockerfile)
    merged = {
        **{name: value for name, value in metadata.items() if isinstance(value, str)},
        "instance_id": metadata.get("task_id") or stated.get("Instance ID") or place.rpartition("/")[2],
        "repo": _repo(metadata) or stated.get("Repo") or (clone[1] if clone else ""),
        "base_commit": _first(metadata, "base_commit_hash", "base_commit")
        or stated.get("Base commit")
        or (checkout[1] if checkout else ""),
        "problem_statement": files.get("instruction.md", ""),
        "patch": _patch(files, "solution"),
        "test_patch": _patch(files, "tests"),
        "image": values["task.toml"].get("environment", {}).get("docker_image", ""),
        "install_config": metadata.get("install_config"),
    }
    return _instance(Row(merged, place, "harbor"))


def _instance(row: Row) -> Instance:
    if not row.optional("repo") or not row.optional("base_commit"):
        raise row.error(
            "names no repository and commit",
            "add repository_url and base_commit_hash to [metadata] of task.toml; other Harbor tasks cannot be imported",
        )
    if not row.optional("patch"):
        raise row.error("has no diff in solution/", "add solution/solution.patch")
    repo, test_patch = row.repo(), row.test_patch()
    specification, notes = stated_environment(row, repo, "")
    return Instance(
        instance_id=row.text("instance_id"),
        repo=repo,
        base_commit=row.commit(),
        problem_statement=row.text("problem_statement"),
        patch=row.patch(),
        test_patch=test_patch,
        version=row.optional("version"),
        licence=row.optional("license", "licence"),
        image=row.image(),
        specification=specification,
        lacks=(*lacks((), test_patch, specification is not None, row.image()), OWN_VERIFIER, *notes),
    )


def _inner(row: Row, files: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the row of another format that the folder holds; empty when it holds none."""
    if "tests/config.json" not in files:
        return {}
    try:
        config = json.loads(files["tests/config.json"])
    except ValueError as error:
        raise row.error(f"has a tests/config.json that is not JSON ({error})", "write it again") from error
    return config if isinstance(config, Mapping) and "base_commit" in config else {}


def _repo(metadata: Mapping[str, Any]) -> str:
    text = _first(metadata, "repository_url", "repo", "repository").rstrip("/").removesuffix(".git")
    return "/".join(re.split(r"[/:]", text)[-2:])


def _first(metadata: Mapping[str, Any], *names: str) -> str:
    return next((str(metadata[name]) for name in names if metadata.get(name)), "")


def _patch(files: Mapping[str, str], folder: str) -> str:
    """Return the diffs of a folder: its ``.patch`` and ``.diff`` files, else the here-documents of its scripts."""
    inside = [(path, text) for path, text in sorted(files.items()) if path.startswith(f"{folder}/")]
    stored = [text for path, text in inside if path.endswith((".patch", ".diff"))]
    scripts = [text for path, text in inside if path.endswith(".sh")]
    quoted = [body for text in scripts for _, body in _HERE_DOCUMENT.findall(text)]
    diffs = [text[text.index("diff --git ") :] for text in stored or quoted if "diff --git " in text]
    return "".join(text if text.endswith("\n") else f"{text}\n" for text in diffs)


FORMAT = Format(recognises, read, leaves_out)
"""Harbor task folders that name a commit of a public repository."""
