"""The format ``r2e-gym``: commits of Python repositories, with statements written by a model.

Columns (repository R2E-Gym/R2E-Gym, ``src/r2egym/repo_analysis/validate_docker_and_hf.py``, class ``DatasetRow``):
``repo_name``, ``docker_image``, ``commit_hash``, ``parsed_commit_content``, ``execution_result_content``,
``modified_files``, ``relevant_files``, ``prompt``, ``problem_statement``, ``expected_output_json``. The commit is the
fix; its diff is kept as JSON (``src/r2egym/commit_models/diff_classes.py``) and starts from the commit's parent,
written ``COMMIT^``. ``expected_output_json`` has the outcome of each test after the fix; the outcomes before it are in
the output that ``execution_result_content`` keeps.

Row identifiers are made from repository and commit. The commit's own tests decide; where it changes none, the test
files that the row keeps are added in ``r2e_tests``, as R2E-Gym does. The environment exists as an image only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .....environments.snapshots.store.patches import make_patch
from ..instance import Instance
from .diffs import is_diff, is_test, select
from .fields import Format, Row, lacks
from .install_config import stated_environment

REPOS = {
    "aiohttp": "aio-libs/aiohttp",
    "coveragepy": "nedbat/coveragepy",
    "datalad": "datalad/datalad",
    "numpy": "numpy/numpy",
    "orange3": "biolab/orange3",
    "pandas": "pandas-dev/pandas",
    "pillow": "python-pillow/Pillow",
    "pyramid": "Pylons/pyramid",
    "scrapy": "scrapy/scrapy",
    "sympy": "sympy/sympy",
    "tornado": "tornadoweb/tornado",
}
"""Short name -> repository, from ``src/r2egym/repo_analysis/base_dockerfiles/``."""
_SIGNS = {"context": " ", "added": "+", "deleted": "-", "note": "\\ "}
_SUMMARY = re.compile(r"^(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS) [^\s:]+::(.+?)(?: - .*)?$", re.MULTILINE)
OTHER_NAMES = "no file names in the labels; R2E-Gym ran copies of the tests in r2e_tests"


def recognises(row: Mapping[str, Any]) -> bool:
    """Return whether a row keeps a parsed commit."""
    return "parsed_commit_content" in row


def read(values: Mapping[str, Any], place: str) -> Instance:
    """Return the instance of a row. Raises RowError."""
    row = Row(values, place, "r2e-gym")
    short, commit = row.text("repo_name"), row.commit("commit_hash")
    repo = short if "/" in short else REPOS.get(short.lower(), "")
    if not repo:
        raise row.error(f"names the repository {short!r}", f"write owner/name, or one of {', '.join(REPOS)}")
    parsed = _json(row, "parsed_commit_content")
    diff = _diff(row, parsed)
    patch = select(diff, lambda path: not is_test(path))
    if not is_diff(patch):
        raise row.error("has a commit that changes nothing but tests", "remove the row")
    tests = select(diff, is_test) or _copied_tests(row)
    fail_to_pass, pass_to_pass = _labels(row)
    created_at = Row(parsed, place, "r2e-gym").date("commit_date")
    specification, notes = stated_environment(row, repo, created_at)
    missing = lacks(fail_to_pass, tests, specification is not None, row.image())
    return Instance(
        instance_id=f"{repo.replace('/', '__')}-{commit.rstrip('^')[:12]}",
        repo=repo,
        base_commit=_parent(parsed, commit),
        problem_statement=_statement(row.text("problem_statement")),
        patch=patch,
        test_patch=tests,
        fail_to_pass=fail_to_pass,
        pass_to_pass=pass_to_pass,
        created_at=created_at,
        image=row.image(),
        specification=specification,
        lacks=(*missing, *([OTHER_NAMES] if fail_to_pass else []), *notes),
    )


def _json(row: Row, name: str) -> Mapping[str, Any]:
    """Return a column that holds a JSON object, as text or as it is."""
    value = row.values.get(name)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise row.error(f"has a {name} that is not JSON ({error})", "load the row again from its source") from error
    if not isinstance(value, Mapping):
        raise row.error(f"has no {name}", "r2e-gym rows need it: add it or remove the row")
    return value


def _parent(parsed: Mapping[str, Any], commit: str) -> str:
    stated = str(parsed.get("old_commit_hash") or "")
    return stated if re.fullmatch(r"[0-9a-f]{7,40}\^?", stated) else f"{commit}^"


def _statement(text: str) -> str:
    inside = re.search(r"\[ISSUE\](.*)\[/ISSUE\]", text, re.DOTALL)
    return (inside[1] if inside else text).strip() + "\n"


def _diff(row: Row, parsed: Mapping[str, Any]) -> str:
    """Return the commit's diff without binary files, as git wrote it."""
    try:
        files = [part for part in parsed["file_diffs"] if not part.get("is_binary_file")]
        return "".join(_file_diff(part) for part in files)
    except (KeyError, TypeError, AttributeError) as error:
        raise row.error(f"has a parsed commit without {error}", "load the row again from its source") from error


def _file_diff(part: Mapping[str, Any]) -> str:
    path = part["header"]["file"]["path"]
    lines = [f"diff --git a/{path} b/{path}", *str(part["header"].get("misc_line") or "").splitlines()]
    if index := part.get("index_line"):
        mode = f" {index['mode']}" if index.get("mode") else ""
        lines.append(f"index {index['old_commit_hash']}..{index['new_commit_hash']}{mode}")
    if part.get("minus_file") and part.get("plus_file"):
        lines += [f"--- {part['minus_file']['path']}", f"+++ {part['plus_file']['path']}"]
    for hunk in part.get("hunks") or ():
        place = hunk["descriptor"]
        section = f" {place['section']}" if place.get("section") else ""
        lines.append(f"@@ -{_range(place['old_range'])} +{_range(place['new_range'])} @@{section}")
        lines += _hunk_lines(hunk["line_group"]["all_lines"], place["old_range"], place["new_range"])
    return "\n".join(lines) + "\n"


def _hunk_lines(lines: Sequence[Mapping[str, Any]], old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return a hunk's lines; the parser kept the end of the diff as one context line too many."""
    texts = [_SIGNS[line["type"]] + line["content"] for line in lines]
    counts = [1 if side.get("length") is None else side["length"] for side in (old, new)]
    sizes = [sum(text[0] in signs for text in texts) for signs in (" -", " +")]
    return texts[:-1] if texts and texts[-1] == " " and sizes == [count + 1 for count in counts] else texts


def _range(side: Mapping[str, Any]) -> str:
    return str(side["start"]) if side.get("length") is None else f"{side['start']},{side['length']}"


def _copied_tests(row: Row) -> str:
    """Return the patch that adds the test files which the row keeps."""
    result = _json(row, "execution_result_content") if row.values.get("execution_result_content") else {}
    files = zip(result.get("test_file_names") or (), result.get("test_file_codes") or (), strict=False)
    return make_patch({}, {f"r2e_tests/{name}": code.encode() for name, code in files})


def _labels(row: Row) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the tests that pass after the fix: those that did not before it, and those that did."""
    if not row.values.get("expected_output_json"):
        return (), ()
    plain = re.compile(r"\x1b\[[\d;]*m")
    expected = {
        plain.sub("", name).split(" - ")[0]: after for name, after in _json(row, "expected_output_json").items()
    }
    passing = [name for name, after in expected.items() if after == "PASSED"]
    result = _json(row, "execution_result_content") if row.values.get("execution_result_content") else {}
    output = plain.sub("", str(result.get("old_commit_res_stdout") or ""))
    before = {name.replace("::", "."): outcome for outcome, name in _SUMMARY.findall(output)}
    if not before:
        return (), ()
    passed = [name for name in passing if before.get(name) == "PASSED"]
    return tuple(name for name in passing if name not in set(passed)), tuple(passed)


FORMAT = Format(recognises, read, lambda row: "")
"""R2E-Gym: commits of Python repositories with written statements; environments are images."""
