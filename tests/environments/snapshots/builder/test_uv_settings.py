"""Settings of uv: pip's configuration is translated, the user's own settings for uv win."""

from __future__ import annotations

from pathlib import Path

import pytest

from etude.environments.snapshots.builder import uv_command


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Remove this machine's own settings of pip and uv."""
    for name in list(uv_command.os.environ):
        if name.startswith(("PIP_", "UV_", "SSL_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")


def test_translate_gives_uv_the_meaning_of_pips_settings(tmp_path: Path) -> None:
    settings = {
        "index-url": "https://mirror.invalid/simple",
        "extra-index-url": "https://one.invalid/simple\nfile:///two",
        "find-links": f"{tmp_path} /does/not/exist https://links.invalid",
        "cert": "/etc/cert.pem",
        "timeout": "12.5",
        "trusted-host": "mirror.invalid",
        "disable-pip-version-check": "1",
    }
    assert uv_command.translate(settings) == {
        "UV_DEFAULT_INDEX": "https://mirror.invalid/simple",
        "UV_INDEX": "https://one.invalid/simple file:///two",
        "UV_FIND_LINKS": f"https://links.invalid,{tmp_path}",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "SSL_CERT_FILE": "/etc/cert.pem",
        "UV_HTTP_TIMEOUT": "12",
        "UV_INSECURE_HOST": "mirror.invalid",
    }


def test_uv_environment_prefers_the_users_uv_variables_to_pips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://pip.invalid")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://extra.invalid")
    assert uv_command.uv_environment()["UV_DEFAULT_INDEX"] == "https://pip.invalid"
    monkeypatch.setenv("UV_INDEX_URL", "https://uv.invalid")
    environment = uv_command.uv_environment()
    assert environment["UV_INDEX_URL"] == "https://uv.invalid"
    assert environment["UV_INDEX"] == "https://extra.invalid"
    assert "UV_DEFAULT_INDEX" not in environment


def test_uv_environment_reads_pips_configuration_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pip.conf").write_text("[global]\nindex-url = https://file.invalid\n[install]\ntimeout = 7\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    environment = uv_command.uv_environment()
    assert (environment["UV_DEFAULT_INDEX"], environment["UV_HTTP_TIMEOUT"]) == ("https://file.invalid", "7")


def test_uv_environment_uses_uv_toml_instead_of_pips_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://pip.invalid")
    config = tmp_path / "config" / "uv" / "uv.toml"
    config.parent.mkdir(parents=True)
    config.write_text("")
    environment = uv_command.uv_environment()
    assert environment["UV_CONFIG_FILE"] == str(config)
    assert "UV_DEFAULT_INDEX" not in environment and "UV_NO_CONFIG" not in environment


def test_uv_environment_drops_what_would_change_an_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_TARGET", "/elsewhere")
    monkeypatch.setenv("UV_LINK_MODE", "symlink")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    environment = uv_command.uv_environment()
    assert not {"UV_TARGET", "UV_LINK_MODE", "PYTHONPATH"} & environment.keys()
    assert (environment["UV_NO_CONFIG"], environment["UV_PYTHON_DOWNLOADS"]) == ("1", "never")


def test_uv_options_forbid_the_index_when_pip_does(monkeypatch: pytest.MonkeyPatch) -> None:
    assert uv_command.uv_options() == []
    monkeypatch.setenv("PIP_NO_INDEX", "true")
    assert uv_command.uv_options() == ["--no-index"]
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://uv.invalid")
    assert uv_command.uv_options() == []
