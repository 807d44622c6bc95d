"""``etude doctor``: what works, what is missing, and how to get it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from etude.cli import app as cli
from etude.cli.commands import doctor


def test_doctor_names_a_remedy_for_every_failed_check(capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.main(["doctor", "--json"])
    diagnosis = json.loads(capsys.readouterr().out)
    assert code == (0 if diagnosis["ok"] else 1)
    assert {check["area"] for check in diagnosis["checks"]} == {"python", "tools", "sandbox", "package", "gpu"}
    assert [check["name"] for check in diagnosis["checks"] if not check["ok"] and not check["remedy"]] == []


def test_doctor_fails_when_the_cache_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ETUDE_CACHE", str(tmp_path / "file" / "cache"))
    diagnosis = doctor.examine()
    cache = next(check for check in diagnosis.checks if check.name == "cache")
    assert not diagnosis.ok
    assert (cache.ok, cache.required) == (False, True)
    assert "ETUDE_CACHE" in cache.remedy


def test_doctor_imports_no_optional_package() -> None:
    code = (
        "import sys\nfrom etude.cli.commands.doctor import OPTIONAL, examine\nexamine()\n"
        "print([name for name in OPTIONAL if name.replace('-', '_') in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_doctor_fits_in_100_columns(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    failed = doctor.Check("sandbox", "docker", False, "", "no docker engine at unix:///run/x.sock: " + "start it " * 30)
    diagnosis = doctor.Diagnosis(True, [failed, doctor.Check("python", "interpreter", True, "3.12.1", required=True)])
    monkeypatch.setattr(doctor, "examine", lambda: diagnosis)
    assert cli.main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    assert " ".join(" ".join(lines).split()).count("start it") == 30
    assert lines[-1].split() == ["ok", "python", "interpreter", "3.12.1"]
