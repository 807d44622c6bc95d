"""Console output: tables without a terminal, and one line for errors that a user can act on."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ValidationError

from etude.cli import console
from etude.errors import UnknownName


class Row(BaseModel):
    number: int
    name: str


def test_explain_names_the_field_when_a_record_does_not_validate() -> None:
    with pytest.raises(ValidationError) as caught:
        Row.model_validate({"number": "x"})
    line = console.explain(caught.value)
    assert line is not None
    assert line.startswith("Row: number: ")
    assert line.endswith("(and 1 more)")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (UnknownName("unknown task 'x'"), "unknown task 'x'"),
        (FileNotFoundError(2, "No such file or directory", "tasks"), "No such file or directory: tasks"),
        (OSError("port in use"), "port in use"),
        (ModuleNotFoundError("No module named 'openenv'", name="openenv.core"), "pip install 'etude[server]'"),
        (ModuleNotFoundError("No module named 'etude.nope'", name="etude.nope"), None),
        (ZeroDivisionError("a defect of Etude"), None),
    ],
)
def test_explain_returns_a_line_only_for_errors_of_the_user(error: Exception, expected: str | None) -> None:
    line = console.explain(error)
    assert (line is None) if expected is None else (line is not None and expected in line)


def test_show_table_prints_all_columns_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    console.show_table([{"agent": "oracle", "mean_reward": 1.0, "ok": True}, {"agent": "noop", "mean_reward": 0.0}])
    shown = capsys.readouterr().out
    assert "mean reward" in shown
    assert "oracle" in shown
    assert "yes" in shown


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.13462, "0.135"),
        (21.158, "21.2"),
        (999.4, "999"),
        (999.6, "1,000"),
        (1227.5, "1,228"),
        (-5e4, "-50,000"),
    ],
)
def test_numbers_are_short_without_an_exponent(value: float, text: str) -> None:
    assert console.short_number(value) == text
