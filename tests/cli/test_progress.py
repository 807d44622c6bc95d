"""Progress: plain lines without a terminal, rates and times left."""

from __future__ import annotations

import io
import sys

import pytest

from etude.cli.progress import Pace, PlainLines, busy, duration, progress_bar


class Clock:
    """Clock that a test moves by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_progress_bar_prints_one_line_per_phase_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("generate") as progress:
        progress("baseline", 0, 0)
        progress("cachetools", 0, 2)
        progress("cachetools", 1, 2)
    assert capsys.readouterr().err.splitlines() == ["generate: baseline", "generate: cachetools"]


class Terminal(io.StringIO):
    """Text stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_busy_shows_its_phase_on_a_terminal_and_nothing_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with busy("export", "writing messages"):
        pass
    assert capsys.readouterr() == ("", "")
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal)
    with busy("export", "writing messages"):
        pass
    assert "export: writing messages" in terminal.getvalue()


def test_progress_bar_shows_rate_and_time_left_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, clock = Terminal(), Clock()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("etude.cli.progress.Pace", lambda: Pace(clock))
    with progress_bar("run") as progress:
        progress("oracle", 0, 100)
        clock.now = 10.0
        progress("oracle", 50, 100)
    assert "50/100" in terminal.getvalue() and "5 a second, 10 s left" in terminal.getvalue()


def test_plain_lines_report_rate_and_time_left_every_ten_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    progress = PlainLines("generate", clock)
    for done in range(13):
        clock.now = 4.0 * done
        progress("cachetools", done, 12)
    assert capsys.readouterr().err.splitlines() == [
        "generate: cachetools",
        "generate: cachetools: 3 of 12, 15 a minute, 36 s left",
        "generate: cachetools: 6 of 12, 15 a minute, 24 s left",
        "generate: cachetools: 9 of 12, 15 a minute, 12 s left",
        "generate: cachetools: 12 of 12",
    ]


def test_pace_counts_from_the_first_unit_of_a_resumed_phase() -> None:
    clock = Clock()
    pace = Pace(clock)
    assert pace.text("trials", 90, 100) == ""
    clock.now = 10.0
    assert pace.text("trials", 95, 100) == "30 a minute, 10 s left"
    assert pace.text("trials", 0, 0) == ""


@pytest.mark.parametrize(
    ("units", "rate"), [(19, "19 a minute"), (114, "114 a minute"), (120, "2 a second"), (90_000, "1,500 a second")]
)
def test_pace_has_no_exponent(units: int, rate: str) -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.text("work", 0, 10**6)
    clock.now = 60.0
    assert pace.text("work", units, 10**6).startswith(rate)


def test_pace_uses_seconds_for_fast_work() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.text("tasks", 0, 1000)
    clock.now = 2.0
    assert pace.text("tasks", 500, 1000) == "250 a second, 2 s left"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0 s"), (59.4, "59 s"), (60, "1 min"), (125, "2 min 5 s"), (3600, "1 h 0 min"), (4210, "1 h 10 min")],
)
def test_duration_is_for_people(seconds: float, text: str) -> None:
    assert duration(seconds) == text
