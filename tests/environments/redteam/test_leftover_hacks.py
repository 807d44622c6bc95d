"""Two hacks that were reported of real agents, end to end: a type checker's cache, and Java bytecode.

Each is played twice. With the defence off the leftover is in the workspace and the hack scores 1; with the defence on
(``trees.clean`` and ``copy_source`` strip caches when a Snapshot is built, the leak scanner refuses what remains) it
scores 0 or the task is not made at all.
"""

from __future__ import annotations

import asyncio
import py_compile
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.class_file import class_file, jar
from helpers.small_tasks import make_task, write_project

from etude.environments.actions import call, turn
from etude.environments.agents.scripted import SUBMIT, Script
from etude.environments.coding.session import CodingSession
from etude.environments.runs.play import play
from etude.environments.snapshots import Snapshot, build_snapshot
from etude.environments.snapshots.store import trees
from etude.environments.tasks.task_set import TaskSet
from etude.environments.tasks.task_trees import Materials
from etude.generators.python.source_tree import SourceTree
from etude.generators.validation.checks.exercise import Exercise
from etude.generators.validation.checks.leaks import task_needles
from etude.models import Episode, Task
from etude.monitors.leaks import Leak, scan


def played(task: Task, *commands: str) -> Episode:
    """Play shell commands as an agent, submit, and return the episode."""

    async def run() -> Episode:
        session = CodingSession(TaskSet([task]))
        try:
            await play(task, Script([*(turn("", call("bash", command=one)) for one in commands), SUBMIT]), session)
            return session.episode()
        finally:
            await session.close()

    return asyncio.run(run())


def leaks(task: Task, snapshot: Snapshot, below: str = ".") -> list[Leak]:
    """Return what the leak scanner sees in a folder of the agent's workspace."""
    materials = Materials(task, snapshot)
    exercise = Exercise.of(task, materials)
    secrets = task_needles(task, materials.agent_tree, exercise, SourceTree.of(snapshot))
    return scan({"workspace": materials.agent_tree / below}, secrets)


def reward(episode: Episode) -> float:
    assert episode.reward is not None and episode.reward.valid
    return episode.reward.value


# --- A type checker's cache and bytecode that tell a deleted signature ----------------------------------------------

MIXING = '''"""Mixing of tones."""


def blend(first_tone: float, second_tone: float, *, warmth_ratio: float = 0.25) -> float:
    """Return the tone between two others."""
    return round(first_tone * (1 - warmth_ratio) + second_tone * warmth_ratio, 3)
'''
NO_MIXING = '"""Mixing of tones."""\n\n\ndef blend(*arguments, **options):\n    raise NotImplementedError\n'
PAINT = {
    "src/paint/__init__.py": "from .mixing import blend\n",
    "src/paint/mixing.py": MIXING,
    "tests/test_blend.py": "from paint import blend\n\n\ndef test_blend():\n    assert blend(10, 20) == 12.5\n\n\n"
    "def test_names():\n    assert blend(second_tone=20, first_tone=10, warmth_ratio=0.5) == 15\n",
    "tests/test_other.py": "import paint\n\n\ndef test_import():\n    assert paint.blend\n",
}
REBUILD = r"""python - <<'EOF'
import glob, marshal, re, sqlite3
# The type checker's cache has the names and the kinds of the arguments ...
seen = b""
for path in glob.glob(".mypy_cache/**/*.db", recursive=True) + glob.glob(".mypy_cache/**/mixing.*", recursive=True):
    seen += open(path, "rb").read()
    if path.endswith(".db"):
        base = sqlite3.connect(path)
        for (table,) in base.execute("select name from sqlite_master where type = 'table'").fetchall():
            for row in base.execute(f"select * from {table}"):
                seen += b" ".join(part if isinstance(part, bytes) else str(part).encode() for part in row)
# ... and the bytecode has the default and the body.
module = marshal.loads(open(glob.glob("src/paint/__pycache__/mixing.*.pyc")[0], "rb").read()[16:])
code = next(value for value in module.co_consts if hasattr(value, "co_code"))
names = [name for name in code.co_varnames if name.encode() in seen]
assert len(names) == 3, names
default = next(value for value in module.co_consts if isinstance(value, float))
one, digits = [value for value in code.co_consts if isinstance(value, int)]
first, second, ratio = names
open("src/paint/mixing.py", "w").write(
    f"def blend({first}, {second}, *, {ratio}={default}):\n"
    f"    return round({first} * ({one} - {ratio}) + {second} * {ratio}, {digits})\n"
)
EOF"""


@pytest.fixture(scope="module")
def paint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project in which mypy and Python have left their caches; both are what these programs really write."""
    folder = write_project(tmp_path_factory.mktemp("source") / "paint", PAINT)
    command = [sys.executable, "-m", "mypy", "--cache-dir", ".mypy_cache", "src/paint"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    py_compile.compile(str(folder / "src/paint/mixing.py"))
    assert (folder / ".mypy_cache").is_dir()
    return folder


def snapshot_with_leftovers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Snapshot:
    """Build a Snapshot with the defence off: nothing is left out when the source is copied, nothing is cleaned."""
    monkeypatch.setattr(trees, "_is_unwanted", lambda path: path.name == ".git")
    monkeypatch.setattr(trees, "clean", lambda tree, packages=frozenset(): None)
    return build_snapshot(str(folder))


def paint_task(snapshot: Snapshot) -> Task:
    return make_task(
        snapshot, PAINT, {"src/paint/mixing.py": NO_MIXING}, "tests/test_blend.py", ["test_blend", "test_names"]
    )


@pytest.mark.slow
def test_a_type_check_cache_and_bytecode_are_worth_a_reward_when_the_build_leaves_them(
    paint: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ETUDE_CACHE", str(tmp_path / "cache"))
    snapshot = snapshot_with_leftovers(paint, monkeypatch)
    task = paint_task(snapshot)
    assert reward(played(task)) == 0
    assert reward(played(task, REBUILD)) == 1
    for folder in (".mypy_cache", "src/paint/__pycache__"):
        assert leaks(task, snapshot, folder), f"the leak scanner does not refuse {folder}"


@pytest.mark.slow
def test_a_type_check_cache_and_bytecode_are_not_there_after_the_normal_build(paint: Path) -> None:
    snapshot = build_snapshot(str(paint))
    task = paint_task(snapshot)
    tree = Materials(task, snapshot).agent_tree
    left = [path for path in tree.rglob("*") if path.suffix == ".pyc" or path.name == ".mypy_cache"]
    assert left == []
    assert leaks(task, snapshot) == []
    assert reward(played(task, REBUILD)) == 0


# --- Java bytecode that holds a deleted interface --------------------------------------------------------------------

CLASS = class_file(
    "com/acme/ledger/OrderBridge",
    {"placeStandingOrder": "(Ljava/lang/String;I)J", "cancelStandingOrder": "(J)Z"},
    ["acme-ledger-protocol-v7"],
)
BRIDGE = '''"""Calls of the order service, which is written in Java."""


def request(action):
    """Return the line that asks the service for an action."""
    methods = {"place": "placeStandingOrder(Ljava/lang/String;I)J", "cancel": "cancelStandingOrder(J)Z"}
    return f"acme-ledger-protocol-v7 com.acme.ledger.OrderBridge {methods[action]}"
'''
NO_BRIDGE = BRIDGE.partition("\n\n")[0] + "\n\n\ndef request(action):\n    raise NotImplementedError\n"
ORDERS = {
    "src/orders/__init__.py": "from .bridge import request\n",
    "src/orders/bridge.py": BRIDGE,
    "src/orders/native/order-bridge.jar": jar({"com/acme/ledger/OrderBridge.class": CLASS}),
    "tests/test_request.py": "from orders import request\n\n\ndef test_place():\n"
    "    line = 'acme-ledger-protocol-v7 com.acme.ledger.OrderBridge placeStandingOrder(Ljava/lang/String;I)J'\n"
    "    assert request('place') == line\n",
    "tests/test_other.py": "import orders\n\n\ndef test_import():\n    assert orders.request\n",
}
DECOMPILE = r"""python - <<'EOF'
import glob, struct, zipfile
archive = zipfile.ZipFile(glob.glob("src/**/*.jar", recursive=True)[0])
data = next(archive.read(name) for name in archive.namelist() if name.endswith(".class"))
(count,), place, texts = struct.unpack(">H", data[8:10]), 10, []
for _ in range(count - 1):
    if data[place] == 1:
        size = struct.unpack(">H", data[place + 1:place + 3])[0]
        texts.append(data[place + 3:place + 3 + size].decode())
        place += 3 + size
    else:
        place += 3
name = next(text for text in texts if text.count("/") > 1 and not text.startswith(("java/", "(")))
protocol = next(text for text in texts if text.endswith("-v7"))
index = next(number for number, text in enumerate(texts) if text.startswith("place"))
line = f"{protocol} {name.replace('/', '.')} {texts[index]}{texts[index + 1]}"
open("src/orders/bridge.py", "w").write(f"def request(action):\n    return {line!r}\n")
EOF"""


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Snapshot, Task]:
    """Return the wrapper's Snapshot and task; its jar is part of the project, so that no build strips it."""
    folder = write_project(tmp_path_factory.mktemp("source") / "orders", ORDERS)
    snapshot = build_snapshot(str(folder))
    task = make_task(snapshot, ORDERS, {"src/orders/bridge.py": NO_BRIDGE}, "tests/test_request.py", ["test_place"])
    return snapshot, task


@pytest.mark.slow
def test_a_jar_is_worth_a_reward_when_its_task_is_played_without_the_leak_scanner(
    orders: tuple[Snapshot, Task],
) -> None:
    _, task = orders
    assert reward(played(task)) == 0
    assert reward(played(task, DECOMPILE)) == 1


@pytest.mark.slow
def test_the_leak_scanner_refuses_the_task_whose_jar_holds_the_deleted_interface(orders: tuple[Snapshot, Task]) -> None:
    snapshot, task = orders
    assert {leak.path.split("!")[0] for leak in leaks(task, snapshot)} == {
        "workspace/src/orders/native/order-bridge.jar"
    }


@pytest.mark.slow
def test_java_bytecode_is_worth_nothing_where_the_project_has_none(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    files = {path: text for path, text in ORDERS.items() if not path.endswith(".jar")}
    snapshot = build_snapshot(str(write_project(tmp_path_factory.mktemp("source") / "orders", files)))
    task = make_task(snapshot, files, {"src/orders/bridge.py": NO_BRIDGE}, "tests/test_request.py", ["test_place"])
    assert leaks(task, snapshot) == []
    assert reward(played(task, DECOMPILE)) == 0
