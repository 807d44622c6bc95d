"""The card of a task set, ``README.md``: a dataset card with the Hub's front matter, without clock, host or paths."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any, Protocol

from ...environments.snapshots import Recipe
from ...models import IMPOSSIBLE, RECORD_LACKS, RENAMED_FROM, REWRITTEN_BY, Task

# SPDX name to the Hub's name.
_HUB = {
    "MIT": "mit", "Apache-2.0": "apache-2.0", "BSD-2-Clause": "bsd-2-clause", "BSD-3-Clause": "bsd-3-clause",
    "BSD-3-Clause-Clear": "bsd-3-clause-clear", "LicenseRef-BSD": "bsd", "ISC": "isc", "Zlib": "zlib",
    "Unlicense": "unlicense", "CC0-1.0": "cc0-1.0", "MPL-2.0": "mpl-2.0", "LGPL-3.0-only": "lgpl-3.0",
    "GPL-2.0-only": "gpl-2.0", "GPL-3.0-only": "gpl-3.0", "AGPL-3.0-only": "agpl-3.0",
}  # fmt: skip
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_BLOBS = re.compile(r"^Snapshots: .*$", re.MULTILINE)

_ABOUT = """Made by Etude: real code with a piece removed or broken, and the tests that fail because of it. Each row of
`tasks.jsonl` is a superset of a SWE-bench row. The oracle scores 1 twice, in two orders, in fresh sandboxes; doing
nothing and trivial solutions score 0."""
_PLAY = """## How to play it

```
pip install 'etude[server]'
etude validate .                  # oracle 1, noop 0, cheater 0
etude serve --tasks .             # over OpenEnv, one session per episode
etude run --tasks . --agent oracle --out runs/oracle
```"""
_SECRET = "Patches, hidden tests and seeds are in the rows: keep them away from the policy that trains on the set."


class CardSource(Protocol):
    """What the card says of a source: a Snapshot, or the record of one that another machine has."""

    @property
    def digest(self) -> str:
        """Return the address of the Snapshot."""
        ...

    @property
    def recipe(self) -> Recipe:
        """Return the recipe of the Snapshot."""
        ...

    @property
    def name(self) -> str:
        """Return the distribution name of the project."""
        ...

    @property
    def version(self) -> str:
        """Return the version of the project."""
        ...

    @property
    def licence(self) -> str:
        """Return the SPDX expression of the project's licence; empty when unknown."""
        ...

    @property
    def passing_tests(self) -> int:
        """Return the number of stable tests."""
        ...


def card(tasks: Sequence[Task], report: Mapping[str, Any], snapshots: Sequence[CardSource]) -> str:
    """Return the whole page; ``report`` may have ``candidates`` with ``yield``, ``rejected`` and ``count``."""
    names = ", ".join(f"{item.name} {item.version}" for item in snapshots)
    parts = [
        "\n".join(["---", *_front_matter(tasks), "---"]),
        f"# {len(tasks)} coding tasks" + (f" from {names}" if names else ""),
        _ABOUT,
        "\n".join(["## Sources", "", *_sources(tasks, snapshots)]),
        "\n".join(["## How it was made", "", "| | |", "|---|---|", *_numbers(tasks, report)]),
        _PLAY,
        "\n".join(["## Limits", "", *_limits(tasks), f"- {_SECRET}"]),
        blobs_line(0, 0),
    ]
    return "\n\n".join(parts) + "\n"


def blobs_line(snapshots: int, size: int) -> str:
    """Return the line about archives; ``size`` is in bytes."""
    if not snapshots:
        return (
            "Snapshots: not packed; the first play builds them from the package index. "
            "`etude snapshot pack .` adds them."
        )
    return (
        f"Snapshots: {snapshots} packed in `blobs/` ({size / (1 << 20):.1f} MiB); the set is played without a package "
        f"index."
    )


def replace_blobs(text: str, snapshots: int, size: int) -> str:
    """Return the card with a new line about archives; unchanged when Etude did not write it."""
    return _BLOBS.sub(lambda match: blobs_line(snapshots, size), text, count=1)


def licences(tasks: Sequence[Task]) -> list[str]:
    """Return the licences of the tasks, sorted."""
    return sorted({task.licence or "unknown" for task in tasks})


def _front_matter(tasks: Sequence[Task]) -> Iterator[str]:
    names = licences(tasks)
    parts = sorted({part for name in names for part in re.findall(r"[\w.+-]+", name) if part not in ("AND", "OR")})
    hub_names = [_HUB[part] for part in parts if part in _HUB]
    if parts and len(hub_names) == len(parts):
        yield f"license: [{', '.join(hub_names)}]" if len(hub_names) > 1 else f"license: {hub_names[0]}"
    else:
        yield "license: other"
        yield f"license_name: {json.dumps(', '.join(names) or 'unknown')}"
    yield "task_categories: [text-generation]"
    kinds = sorted({task.generator.name.replace("_", "-") for task in tasks})
    yield f"tags: [{', '.join(['code', 'reinforcement-learning', 'openenv', 'etude', *kinds])}]"
    yield f"size_categories: [{next((name for limit, name in _SIZES if len(tasks) < limit), 'n>1M')}]"
    yield "configs: [{config_name: default, data_files: tasks.jsonl}]"


def _sources(tasks: Sequence[Task], snapshots: Sequence[CardSource]) -> Iterator[str]:
    yield from ("| source | licence | Python | tests that pass | tasks |", "|---|---|---|---|---|")
    count = Counter(task.snapshot.digest for task in tasks if task.snapshot)
    for item in snapshots:
        cells = (
            f"{item.name} {item.version} (`{item.recipe.source.spec}`)",
            item.licence or "unknown",
            item.recipe.python,
            item.passing_tests,
            count[item.digest],
        )
        yield f"| {' | '.join(str(cell).replace('|', ' ') for cell in cells)} |"


def _numbers(tasks: Sequence[Task], report: Mapping[str, Any]) -> Iterator[str]:
    for name, number in sorted(Counter(task.generator.name for task in tasks).items()):
        yield f"| {name} | {number} tasks |"
    most = f" (at most {report['count']} per source and generator)" if "count" in report else ""
    if "candidates" in report:
        yield f"| candidates | {report['candidates']}{most} |"
        yield f"| yield | {report['yield']:.0%} |"
    for reason, number in sorted(report.get("rejected", {}).items()):
        yield f"| rejected: {reason} | {number} |"
    splits = Counter(task.split for task in tasks)
    yield f"| splits | {', '.join(f'{name} {number}' for name, number in sorted(splits.items())) or 'none'} |"
    yield from _selection(report.get("selection", {}))
    if (rewriting := report.get("rewriting", {})).get("model"):
        yield f"| statements in the words of `{rewriting['model']}` | {rewriting['rewritten']} tasks |"
    for package, part in report.get("renamed", {}).get("packages", {}).items():
        yield f"| identifiers renamed for twins of {package} | {part['renamed']} of {part['identifiers']} |"
    if tasks:
        outside = sum(task.assurance == "out_of_process" for task in tasks)
        yield f"| graded out of process too (assurance `out_of_process`) | {outside} of {len(tasks)} tasks |"
    reasons = Counter(str(reason) for task in tasks if (reason := task.features.get(RECORD_LACKS)))
    for reason, number in sorted(reasons.items(), key=lambda item: (-item[1], item[0])):
        yield f"| graded in process alone, because the record lacks: {reason.replace('|', ' ')} | {number} |"
    strengths = sorted(task.verifier_strength for task in tasks if task.verifier_strength is not None)
    if strengths:
        low, middle, high = strengths[0], median(strengths), strengths[-1]
        measured = f"{len(strengths)} of {len(tasks)} tasks"
        yield f"| verifier strength (share of mutants killed) | {low:.2f} / {middle:.2f} / {high:.2f} in {measured} |"
        full = sum(value == 1.0 for value in strengths)
        yield f"| every mutant killed | {full} tasks |"


def _selection(selection: Mapping[str, Any]) -> Iterator[str]:
    """Yield the rows about splits, benchmarks and overlap; ``selection`` is the part of a report, {} without one."""
    if below := selection.get("below_strength"):
        least = f"{selection['min_strength']:g}"
        yield f"| verifier strength below {least} (split `weak`, or `benchmark`) | {below} tasks |"
    if unmeasured := selection.get("unmeasured_strength"):
        yield f"| solutions without anything to mutate (no strength) | {unmeasured} tasks |"
    for package, names in selection.get("benchmarks", {}).items():
        yield f"| package of a public benchmark | {package} ({', '.join(names)}) |"
    for part in selection.get("overlap", []):
        compared = f"{part['file'].replace('|', ' ')} ({part['rows']} rows)"
        shared = f"{part['statements']} statements, {part['patches']} patches of {part['tasks']} tasks"
        yield f"| 13 words in a row shared with {compared} | {shared} |"


def _limits(tasks: Sequence[Task]) -> Iterator[str]:
    inside = sum(task.assurance == "in_process" for task in tasks)
    if inside:
        yield (
            f"- {inside} tasks have assurance `in_process`: hidden tests run beside the agent's code, and code inside "
            f"pytest can forge a result. Monitors look for that, but they cannot prove that there was none."
        )
    twins = sum(bool(task.features.get(IMPOSSIBLE)) for task in tasks)
    if twins:
        yield (
            f"- {twins} tasks are impossible twins (`features.{IMPOSSIBLE}`): one hidden test contradicts the "
            "statement, the solution scores 0, and passing is a confirmed finding. Leave them out to measure skill."
        )
    renamed = sum(RENAMED_FROM in task.features for task in tasks)
    if renamed:
        yield (
            f"- {renamed} tasks are renamed twins (`features.{RENAMED_FROM}` names the original): the same exercise "
            "under other names. `etude run` reports the difference in solve rate as `recall`; train on one side alone."
        )
    reworded = sum(REWRITTEN_BY in task.features for task in tasks)
    if reworded:
        yield (
            f"- A language model wrote {reworded} statements in its own words (`features.{REWRITTEN_BY}` names it). "
            "Names, code, numbers and listed behaviours were compared with the generated text; meaning was not."
        )
    yield "- The packages are public: a model may have seen the solutions in training."
    yield "- Played on Linux with the Python versions above; other platforms need a set of their own."
    yield f"- Licences, as the projects state them: {', '.join(licences(tasks)) or 'none'}. Rows quote their code."
