"""The outline of a package and its tests, as a language model reads it."""

from __future__ import annotations

from ....python.hidden_tests import split_test_id
from ....python.source import docstring, signature
from ....python.tested_code import in_seed_order
from ..target import Target
from .clusters import TestedTargets


def outline(tested: TestedTargets, most: int, seed: int) -> str:
    """Return the tested definitions by module, each with the number of its tests, then the tests by file.

    It has about ``most`` characters at most; which modules and files are left out depends on the seed.
    """
    modules: dict[str, list[Target]] = {}
    for target in tested.targets.values():
        modules.setdefault(tested.code.tree.dotted_name(target.module.path), []).append(target)
    files: dict[str, dict[str, None]] = {}
    for test in tested.passed:
        path, parts = split_test_id(test)
        files.setdefault(path, {})[".".join(parts)] = None
    sections = {name: _module_section(tested, name, targets) for name, targets in modules.items()}
    tests = {path: "\n".join([f"{path}:", *(f"  {name}" for name in names)]) for path, names in files.items()}
    code = _fitting(sections, most * 3 // 4, seed)
    return (
        f"# Code (name, signature, tests that run it of {len(tested.passed)}, first line of its docstring)\n\n{code}"
        f"\n\n# Tests\n\n{_fitting(tests, most // 4, seed)}"
    )


def _module_section(tested: TestedTargets, name: str, targets: list[Target]) -> str:
    lines = [f"{name}:"]
    for target in targets:
        text = signature(target.module, target.definitions[0])
        about = docstring(target.module, target.definitions[0]).split("\n")[0]
        owner = f"{target.owner.name}." if target.owner else ""
        number = tested.tests[target.entity].bit_count()
        lines.append(f"  {owner}{text.removeprefix('def ')}  [{number}]" + (f"  {about}" if about else ""))
    return "\n".join(lines)


def _fitting(sections: dict[str, str], most: int, seed: int) -> str:
    """Return sections in their own order, as many as fit, drawn by the seed; at least one, shortened if need be."""
    chosen: set[str] = set()
    room = most
    for name in in_seed_order(sections, seed, "outline", key=str):
        if len(sections[name]) <= room:
            chosen.add(name)
            room -= len(sections[name])
    if not chosen:
        return next(iter(sections.values()))[:most]
    return "\n\n".join(text for name, text in sections.items() if name in chosen)
