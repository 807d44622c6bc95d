"""Imports and plugin marks of a suite, read from its syntax: the last resort for finding its dependencies."""

from __future__ import annotations

import ast
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

# Import name -> distribution. Only these names are ever guessed: anything else must be declared, because a
# distribution of an arbitrary name on an index can be anything.
_NAMED_ALIKE = (
    "aiohttp anyio arrow asgiref attrs boto3 botocore cattrs certifi chardet click cloudpickle colorama cryptography "
    "dill docutils freezegun greenlet h11 h2 hpack html5lib httpcore httpx hyperframe hypothesis idna jsonschema lxml "
    "matplotlib mock msgpack networkx numpy orjson outcome packaging pandas parameterized pexpect pretend psutil "
    "pyfakefs pyparsing pytz regex requests respx responses rich simplejson six sniffio sortedcontainers starlette "
    "sympy testfixtures toml tomli tomlkit toolz tornado trio trustme tzdata tzlocal ujson urllib3 uvicorn virtualenv "
    "websockets whatever wrapt zstandard"
)
DISTRIBUTIONS = {name: name for name in _NAMED_ALIKE.split()} | {
    "attr": "attrs", "bs4": "beautifulsoup4", "cattr": "cattrs", "charset_normalizer": "charset-normalizer",
    "dateutil": "python-dateutil", "django": "Django", "dotenv": "python-dotenv", "faker": "Faker", "flask": "Flask",
    "jinja2": "Jinja2", "jwt": "PyJWT", "markupsafe": "MarkupSafe", "more_itertools": "more-itertools",
    "moto": "moto[server]",
    "pkg_resources": "setuptools<81", "pygments": "Pygments", "pytest_asyncio": "pytest-asyncio",
    "pytest_mock": "pytest-mock", "requests_mock": "requests-mock", "rpds": "rpds-py",
    "setuptools": "setuptools<81", "socks": "PySocks", "sqlalchemy": "SQLAlchemy",
    "time_machine": "time-machine", "tomli_w": "tomli-w",
    "typing_extensions": "typing-extensions", "vcr": "vcrpy",
    "webtest": "WebTest", "werkzeug": "Werkzeug", "yaml": "PyYAML",
    "zope": "zope.interface",
}  # fmt: skip
_MARKS = (
    (re.compile(r"pytest\.mark\.asyncio|@pytest_asyncio\."), "pytest-asyncio"),
    (re.compile(r"pytest\.mark\.anyio\b"), "anyio"),
    (re.compile(r"pytest\.mark\.trio\b"), "pytest-trio"),
    (re.compile(r"pytest\.mark\.freeze_time\b"), "pytest-freezer"),
    (re.compile(r"\bdef \w+\([^)]*\bmocker\b"), "pytest-mock"),
    (re.compile(r"\bdef test\w*\([^)]*\b(data|file|num|ndarrays|image)_regression\b"), "pytest-regressions"),
    (re.compile(r"\bdef test\w*\([^)]*\b(httpx_mock)\b"), "pytest-httpx"),
    (re.compile(r"\bdef test\w*\([^)]*\b(respx_mock)\b"), "respx"),
    (re.compile(r"\bdef test\w*\([^)]*\b(aiohttp_client|aiohttp_server)\b"), "pytest-aiohttp"),
    (re.compile(r"\bdef test\w*\([^)]*\b(fake_process|fake_subprocess)\b"), "pytest-subprocess"),
    (re.compile(r"\bdef test\w*\([^)]*\bsubtests\b"), "pytest-subtests"),
    (re.compile(r"\bdef test\w*\([^)]*\bbenchmark\b"), "pytest-benchmark"),
    (re.compile(r"\bdef test\w*\([^)]*\brequests_mock\b"), "requests-mock"),
    (re.compile(r"\bdef test\w*\([^)]*\bhttpserver\b"), "pytest-httpserver"),
    (re.compile(r"\bdef test\w*\([^)]*\bfreezer\b"), "pytest-freezer"),
)


def test_files(tree: Path, tests: Sequence[str]) -> Iterator[Path]:
    """Yield the Python files below the tests' paths, then the conftest of the tree."""
    for place in tests:
        path = tree / place
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]
    if (tree / "conftest.py").is_file():
        yield tree / "conftest.py"


def required_imports(files: Iterable[Path]) -> set[str]:
    """Return the top-level names imported unguarded at module level: without them a file cannot be collected."""
    names = {name for path in files for node in _parsed(path).body for name in _names(node)}
    return names - set(sys.stdlib_module_names)


def _names(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        yield node.module.partition(".")[0]


def _parsed(path: Path) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError, RecursionError):
        return ast.Module(body=[], type_ignores=[])


def marked_plugins(files: Iterable[Path]) -> list[str]:
    """Return the plugin distributions whose marks or fixtures the tests use."""
    plugins: dict[str, None] = {}
    for path in files:
        try:
            text = path.read_text("utf-8", "replace")
        except OSError:
            continue
        plugins.update((name, None) for pattern, name in _MARKS if pattern.search(text))
    return list(plugins)


def missing_modules(messages: Iterable[str]) -> set[str]:
    """Return the top-level names that collection errors report as missing."""
    text = "\n".join(messages)
    return {name.partition(".")[0] for name in re.findall(r"No module named '?([\w.]+)'?", text)}


def all_imports(files: Iterable[Path]) -> set[str]:
    """Return every name that the files import anywhere, ``pytest.importorskip`` included."""
    names: set[str] = set()
    for path in files:
        for node in ast.walk(_parsed(path)):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names.update(_names(node))
            elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "importorskip" and node.args:
                module = node.args[0]
                if isinstance(module, ast.Constant) and isinstance(module.value, str):
                    names.add(module.value.partition(".")[0])
    return names - set(sys.stdlib_module_names)
