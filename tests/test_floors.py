"""The floors of the repository: a package imports only from floors below it, and no file imports itself in a circle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

FLOORS = {
    "models": 0,
    "llm": 0,
    "registry": 0,
    "errors": -1,
    "html_pages": 0,
    "loop_thread": 0,
    "client_socket": 0,
    "intervals": 0,
    "parsing_cost": 0,
    "tool_names": 0,
    "client": 1,
    "hints": 1,
    "monitors": 1,
    "environments.sandbox": 2,
    "environments.snapshots": 3,
    "environments": 4,
    "generators": 5,
    "server": 6,
    "trainers": 6,
    "cli": 7,
}
NEVER = {"trainers": {"environments", "environments.sandbox", "environments.snapshots", "generators", "server"}}
# Adapters are distributions of their own.
OUTSIDE = ("tests/", "benchmarks/", "research/", "examples/", ".ci/", "trainers/integrations/packages/")


def unit_of(module: str) -> str:
    """The package with a floor that a dotted module name (without ``etude.``) belongs to; '' is the face."""
    parts = module.split(".")
    for size in range(len(parts), 0, -1):
        name = ".".join(parts[:size])
        if name in FLOORS:
            return name
    if module:
        raise AssertionError(f"{module} has no floor: add it to FLOORS and to the design")
    return ""


def imports(path: Path, root: Path) -> Iterator[tuple[str, int]]:
    """(module, line) for every import in a file, wherever it stands; relative ones start with ``etude.``."""
    relative = path.relative_to(root)
    package = ["etude", *relative.parts[:-1]]
    for node in ast.walk(ast.parse(path.read_bytes(), str(path))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module or "", node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1]
            assert base, f"{relative}:{node.lineno} imports from above the package"
            module = ".".join([*base, *((node.module or "").split(".") if node.module else [])])
            # `from . import x` names the module x; `from .x import y` may name the module x.y or a thing in x.
            for alias in node.names:
                target = root.joinpath(*module.split(".")[1:], alias.name)
                is_module = target.with_suffix(".py").exists() or (target / "__init__.py").exists()
                yield (f"{module}.{alias.name}" if is_module else module), node.lineno


@pytest.fixture(scope="module")
def product(root: Path, tracked: list[str]) -> list[Path]:
    return [root / name for name in tracked if name.endswith(".py") and not name.startswith(OUTSIDE)]


def dotted(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_every_package_imports_only_lower_floors(root: Path, product: list[Path]) -> None:
    wrong = []
    for path in product:
        here = unit_of(dotted(path, root))
        for module, line in imports(path, root):
            if not module.startswith("etude.") or not here:
                continue
            there = unit_of(module.removeprefix("etude."))
            allowed = there == here or FLOORS[there] < FLOORS[here]
            if not allowed or there in NEVER.get(here, set()):
                wrong.append(f"{path.relative_to(root)}:{line}: {here} (floor {FLOORS[here]}) imports {there}")
    assert not wrong, "\n".join(wrong)


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Return the strongly connected components with more than one module (Tarjan 1972), each sorted by name."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    components: list[list[str]] = []

    def visit(module: str) -> None:
        order[module] = low[module] = len(order)
        stack.append(module)
        for other in sorted(edges.get(module, ())):
            if other not in order:
                visit(other)
            if other in stack:
                low[module] = min(low[module], low[other])
        if low[module] == order[module]:
            component = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(component) > 1:
                components.append(sorted(component))

    for module in sorted(edges):
        if module not in order:
            visit(module)
    return components


def file_imports(root: Path, product: list[Path]) -> dict[str, set[str]]:
    """Return the import graph between product files, by dotted name; imports in functions and for types count."""
    known = {dotted(path, root) for path in product}
    return {
        dotted(path, root): {
            module.removeprefix("etude.")
            for module, _ in imports(path, root)
            if module.removeprefix("etude.") in known - {dotted(path, root)}
        }
        for path in product
    }


def test_circles_finds_a_ring_and_passes_a_chain() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]


def test_no_import_circle_exists_at_file_level(root: Path, product: list[Path]) -> None:
    graph = file_imports(root, product)
    found = circles(graph)
    edges = sum(len(targets) for targets in graph.values())
    print(
        f"import graph: {len(graph)} files, {edges} imports, {len(found)} circles, {len(set(FLOORS.values()))} floors"
    )
    assert not found, "\n".join(" <-> ".join(ring) for ring in found)


def test_product_code_imports_relatively(root: Path, product: list[Path]) -> None:
    wrong = []
    # OpenEnv loads `server.app:app` from the repository's root; that one file sends it on to `etude.server`.
    for path in (path for path in product if path != root / "server" / "app.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            wrong += [f"{path.relative_to(root)}:{node.lineno}" for name in names if name.split(".")[0] == "etude"]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("library", "allowed"),
    [
        ("openenv", ("environments/openenv/", "server/", "trainers/integrations/", "cli/demo/", "cli/bench/peers/")),
        ("torch", ("trainers/",)),
        ("transformers", ("trainers/",)),
        ("trl", ("trainers/",)),
        # The file in generators/ is copied into what is exported, and never imported; the scripts in
        # cli/bench/peers are run by the peers' own interpreters.
        (
            "verifiers",
            (
                "trainers/",
                "environments/verifiers",
                "generators/export/verifiers_set/taskset.py",
                "cli/bench/peers/",
            ),
        ),
        ("ray", ("generators/machines/ray_connection.py", "server/", "trainers/")),
    ],
)
def test_a_heavy_library_has_one_home(library: str, allowed: tuple[str, ...], root: Path, product: list[Path]) -> None:
    users = {
        str(path.relative_to(root))
        for path in product
        for module, _ in imports(path, root)
        if module.split(".")[0] == library
    }
    assert {name for name in users if not name.startswith(allowed)} == set()


def test_tests_and_benchmarks_reach_the_checkout_as_etude_only(root: Path, tracked: list[str]) -> None:
    own = {Path(name).parts[0].removesuffix(".py") for name in tracked if name.endswith(".py")} - {"tests", "__init__"}
    wrong = []
    for name in tracked:
        if not name.endswith(".py") or not name.startswith(("tests/", "benchmarks/", "research/")) or "/data/" in name:
            continue
        for node in ast.walk(ast.parse((root / name).read_bytes())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = ["<relative>" if node.level else node.module or ""]
            names = [each for each in names if each.split(".")[0] in {*own, "<relative>"}]
            wrong += [f"{name}:{node.lineno} imports {each}" for each in names]
    assert not wrong, "\n".join(wrong)
