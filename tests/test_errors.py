"""Exceptions: one file, one base, and the tree at its top names every one of them in its place."""

from __future__ import annotations

import inspect
import re

from etude import errors

CLASSES = {
    name: item for name, item in vars(errors).items() if inspect.isclass(item) and item.__module__ == errors.__name__
}


def test_every_exception_of_etude_has_one_base() -> None:
    assert len(CLASSES) > 40
    assert all(issubclass(item, errors.EtudeError) for item in CLASSES.values() if issubclass(item, Exception))


def test_the_tree_at_the_top_names_every_exception() -> None:
    assert "EtudeError" in (errors.__doc__ or "")
    drawn = set(re.findall(r"\w+", errors.__doc__ or ""))
    assert [name for name, item in CLASSES.items() if issubclass(item, Exception) and name not in drawn] == []
