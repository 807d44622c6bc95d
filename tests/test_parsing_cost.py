"""Texts that take Python's parser long are recognised, and ordinary large files are read."""

from __future__ import annotations

import inspect
import typing

import pytest

from etude.monitors.reading.module import parsed
from etude.parsing_cost import MOST_FIELDS, is_costly


@pytest.mark.parametrize("head", ["x = f'", "x = rf'", 'x = F"', "x = fR'''"])
def test_many_fields_of_an_f_string_are_costly(head: str) -> None:
    text = head + "{a}" * (MOST_FIELDS + 1) + head[5:].lstrip("rfRF") + "\n"
    assert is_costly(text) and is_costly(text.encode())
    assert parsed(text) is None
    assert not is_costly(head + "{a}" * 100)


def test_tables_and_sources_are_not_costly() -> None:
    table = "ROWS = [" + "{'a': 1},\n" * (2 * MOST_FIELDS) + "]\n"
    assert not is_costly(table) and parsed(table) is not None
    assert not is_costly(inspect.getsource(typing))
    assert not is_costly("\ud800" + table)
