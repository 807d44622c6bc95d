"""The uv command: its environment, which translates pip's configuration for uv, its runs and their errors.

A machine that is set up for pip (a mirror, local wheels, a certificate) thereby works for uv too. A ``UV_*`` variable
of the user wins over the translation, and a user's or system's ``uv.toml`` replaces it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from configparser import RawConfigParser
from dataclasses import dataclass
from pathlib import Path

import uv

from ....errors import SnapshotError
from ..log_text import last_lines

TIMEOUT_S = 900.0
_NOISE = re.compile(r"(Building wheel|hint:|warning:|\[std(out|err)\]|error: Failed to build|.*build backend returned)")
# These would install elsewhere, weaken the check of hashes, or choose another interpreter than Etude asks for.
_IGNORED = frozenset(
    "UV_BREAK_SYSTEM_PACKAGES UV_COMPILE_BYTECODE UV_ISOLATED UV_LINK_MODE UV_NO_BUILD_ISOLATION "
    "UV_NO_VERIFY_HASHES UV_PREVIEW UV_PROJECT UV_PROJECT_ENVIRONMENT UV_PYTHON UV_REQUIRE_HASHES UV_SYSTEM_PYTHON "
    "UV_TARGET UV_WORKING_DIR UV_WORKING_DIRECTORY "
    "PIP_TARGET PIP_PREFIX PIP_ROOT PIP_USER PIP_REQUIRE_VIRTUALENV PIP_REQUIRE_HASHES PIP_PYTHON".split()
)


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment without the variables that would change a build or an installation."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in _IGNORED and not name.startswith(("PYTHON", "VIRTUAL_ENV", "COV_", "PYTEST_"))
    }
    return {**inherited, **(extra or {})}


def uv_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment in which every uv command runs.

    uv never downloads an interpreter, and never follows the ``[tool.uv]`` table of a project, which can name other
    indexes and repositories than the user's.
    """
    environment = clean_environment()
    config = _user_config(environment)
    translated = {} if config else translate(pip_settings())
    named = {alias for group in _SAME for alias in group if environment.keys() & group}
    chosen = {name: value for name, value in translated.items() if name not in named and name not in environment}
    if not {"UV_INDEX", "UV_FIND_LINKS"} & chosen.keys():
        chosen.pop("UV_INDEX_STRATEGY", None)
    fixed = {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_SOURCES": "1", "UV_NO_PROGRESS": "1", "NO_COLOR": "1"}
    configured = {"UV_CONFIG_FILE": config} if config else {"UV_NO_CONFIG": "1"}
    return {**environment, **chosen, **fixed, **configured, **(extra or {})}


def uv_options() -> list[str]:
    """Return the options for which uv has no variable: ``--no-index`` where pip is configured to use no index."""
    environment = clean_environment()
    named = environment.keys() & {alias for group in _SAME for alias in group}
    forbidden = pip_settings().get("no-index", "").lower() in ("1", "true", "yes", "on")
    return ["--no-index"] if forbidden and not named and not _user_config(environment) else []


# uv has two names for some settings; a user's use of either counts.
_SAME = (frozenset({"UV_DEFAULT_INDEX", "UV_INDEX_URL"}), frozenset({"UV_INDEX", "UV_EXTRA_INDEX_URL"}))


def _user_config(environment: Mapping[str, str]) -> str:
    """Return the path of the ``uv.toml`` that the user or the system provides, else an empty string."""
    if named := environment.get("UV_CONFIG_FILE"):
        return os.path.abspath(named)
    candidates = (_config_home(environment) / "uv" / "uv.toml", Path("/etc/uv/uv.toml"))
    return next((str(path) for path in candidates if os.path.isfile(path)), "")


def pip_settings() -> dict[str, str]:
    """Return pip's effective settings by option name (``index-url``): its files, then its ``PIP_*`` variables."""
    variables = [(name, value) for name, value in os.environ.items() if name.startswith("PIP_")]
    return {**pip_files(), **{name[4:].lower().replace("_", "-"): value for name, value in variables}}


def pip_files() -> dict[str, str]:
    """Return the settings in pip's configuration files; those of ``PIP_CONFIG_FILE`` replace the user's.

    The places are documented in pip's user guide, under "Configuration".
    """
    named = os.environ.get("PIP_CONFIG_FILE", "")
    if named == os.devnull:
        return {}
    folders = os.environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(os.pathsep)
    paths = [*(Path(folder, "pip", "pip.conf") for folder in reversed(folders)), Path("/etc/pip.conf")]
    user = [Path.home() / ".pip" / "pip.conf", _config_home(os.environ) / "pip" / "pip.conf"]
    paths += [*([] if os.path.exists(named) else user), Path(sys.prefix, "pip.conf"), Path(named)]
    parser = RawConfigParser(strict=False)
    parser.read([path for path in paths if os.path.isfile(path)], "utf-8")
    sections = [parser[name] for name in ("global", "install") if parser.has_section(name)]
    return {name.replace("_", "-"): value for section in sections for name, value in section.items()}


def _config_home(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("XDG_CONFIG_HOME") or Path.home() / ".config")


def translate(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that give uv the meaning of pip's ``settings``.

    pip treats all its indexes alike and takes the best version of any, hence uv's ``unsafe-best-match``. Local folders
    of links that do not exist are left out: pip ignores them, uv refuses them.
    """
    variables = {"UV_INDEX_STRATEGY": "unsafe-best-match"}
    for option, (names, convert) in _TRANSLATIONS.items():
        if value := convert(settings.get(option, "")):
            variables |= dict.fromkeys(names, value)
    return variables


def _words(value: str) -> str:
    """Return a list as uv's variables write it: separated by single spaces."""
    return " ".join(value.split())


def _existing_links(value: str) -> str:
    """Return the ``find-links`` that uv can read, separated by commas."""
    links = [link for link in value.split() if "://" in link and not link.startswith("file://")]
    local = [(link, link.removeprefix("file://")) for link in value.split() if link not in links]
    return ",".join([*links, *(link for link, path in local if os.path.exists(os.path.expanduser(path)))])


def _whole_seconds(value: str) -> str:
    """Return a timeout as uv reads it, which takes whole seconds only."""
    return value.strip().partition(".")[0]


_TRANSLATIONS: dict[str, tuple[tuple[str, ...], Callable[[str], str]]] = {
    "index-url": (("UV_DEFAULT_INDEX",), str.strip),
    "extra-index-url": (("UV_INDEX",), _words),
    "find-links": (("UV_FIND_LINKS",), _existing_links),
    "trusted-host": (("UV_INSECURE_HOST",), _words),
    "constraint": (("UV_CONSTRAINT",), _words),
    "cert": (("SSL_CERT_FILE",), str.strip),
    "client-cert": (("SSL_CLIENT_CERT",), str.strip),
    "default-timeout": (("UV_HTTP_TIMEOUT",), _whole_seconds),
    "timeout": (("UV_HTTP_TIMEOUT",), _whole_seconds),
    "proxy": (("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY"), str.strip),
}


@dataclass(frozen=True)
class UvResult:
    """Outcome of one uv command: whether it succeeded, its standard error, its standard output."""

    ok: bool
    log: str
    output: str = ""

    def error_text(self) -> str:
        """Return why the command failed, on one line: the resolver's explanation, else the end of the log."""
        lines = [line.strip() for line in self.log.splitlines() if line.strip()]
        lines = [line.removeprefix("cause: ") for line in lines if not _NOISE.match(line.removeprefix("cause: "))]
        reasons = next((number for number, line in enumerate(lines) if line.startswith("Because ")), None)
        if reasons is None:
            return last_lines("\n".join(lines), 6)
        text = " ".join(lines[reasons:])
        return text.replace(", we can conclude that your requirements are unsatisfiable", "").rstrip(".")


def run_uv(*arguments: str, environment: Mapping[str, str] | None = None) -> UvResult:
    """Run uv with the user's package index configuration; a failing command is a result, not an exception.

    Raises SnapshotError when uv itself is missing.
    """
    try:
        executable = uv.find_uv_bin()
    except FileNotFoundError as error:
        raise SnapshotError("uv's executable is missing; run: pip install --force-reinstall uv") from error
    try:
        process = subprocess.run(
            [executable, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=uv_environment(environment),
            timeout=TIMEOUT_S,
            check=False,
            cwd="/",  # no project is discovered there
        )
    except subprocess.TimeoutExpired as error:
        log = (error.stderr or b"").decode("utf-8", "replace")
        return UvResult(False, f"{log}\nuv did not finish within {TIMEOUT_S:.0f} s")
    log, output = (stream.decode("utf-8", "replace") for stream in (process.stderr, process.stdout))
    return UvResult(process.returncode == 0, log, output)
