"""The name of a feature, from the names of its tests or of the code that its tests share."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from .clusters import Cluster

_GENERIC = {"", "test", "tests", "testing", "unit", "unittests", "integration", "functional", "main", "all", "basic"}


def feature_title(cluster: Cluster, roots: Iterable[str]) -> str:
    """Return a short name: plain words for a cluster of tests, code for what a module, class or function does.

    The names of ``roots``, the package's folders, say nothing about a feature.
    """
    generic = _GENERIC | {PurePosixPath(root).stem.lower() for root in roots}
    path, _, name = cluster.name.partition("::")
    stem = PurePosixPath(path).stem
    texts = {
        "test class": [name, stem],
        "test file": [stem],
        "test folder": [PurePosixPath(path).name],
        "topic": [cluster.name],
    }.get(cluster.kind, [])
    for text in texts:
        words = plain_words(text)
        if words.lower() not in generic:
            return words
    if cluster.kind in ("class", "definition"):
        owner, _, short = name.rpartition(".")
        if short.startswith("__"):
            return f"`{owner or name}`"
        return plain_words(short.strip("_")) if short.startswith("_") else f"`{name}`"
    return f"`{main_module(cluster)}`"


def plain_words(name: str) -> str:
    """Return ``TestLRUCache`` as ``LRU cache`` and ``test_cache_keys`` as ``cache keys``."""
    name = re.sub(r"^[Tt]ests?_?(?=[A-Z_a-z])|_?[Tt]ests?(Cases?)?$|(?<=[a-z])TestCase$", "", name)
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name.replace("_", " "))
    return " ".join(word if word.isupper() else word.lower() for word in name.split())


def main_module(cluster: Cluster) -> str:
    """Return the name of the module that loses most definitions."""
    count: dict[str, int] = {}
    for target in cluster.targets:
        count[target.module.path] = count.get(target.module.path, 0) + 1
    path = PurePosixPath(max(sorted(count), key=lambda item: count[item]))
    return path.parent.name if path.stem == "__init__" else path.stem
