"""Checks of reading, writing and collecting files that an adversary arranged."""

from __future__ import annotations

from ..protocol import MIB, Sandbox
from .checking import output_of, python, raises


async def reads_and_writes_files(sandbox: Sandbox) -> None:
    data = bytes(range(256)) * 3000
    await sandbox.write("deep/er/a 'b\"$(x)\n-n", data)
    assert await sandbox.read("/workspace/deep/er/a 'b\"$(x)\n-n") == data
    await sandbox.write("-rf", b"")
    assert await sandbox.read("-rf") == b""
    assert await sandbox.read("kept") == b"kept\n"
    await sandbox.write("tool.sh", b"new")
    assert await output_of(sandbox, "stat -c %a tool.sh; cat tool.sh") == "755\nnew"


async def read_raises_the_right_errors(sandbox: Sandbox) -> None:
    await output_of(sandbox, "mkfifo fifo; ln -s loop loop; ln -s /dev/zero zero; mkdir dir; ln -s nowhere dangling")
    cases: list[tuple[str, type[Exception]]] = [
        ("absent", FileNotFoundError),
        ("dangling", FileNotFoundError),
        ("loop", FileNotFoundError),
        ("dir", IsADirectoryError),
        ("fifo", PermissionError),
        ("zero", PermissionError),
        ("kept", ValueError),
        ("", FileNotFoundError),
        ("a\0b", FileNotFoundError),
    ]
    for path, kind in cases:
        with raises(kind):
            await sandbox.read(path, limit=2)


async def write_raises_the_right_errors(sandbox: Sandbox) -> None:
    await output_of(sandbox, "mkfifo fifo; mkdir dir")
    for path in ("dir", "fifo", "/usr/x", "kept/below", "/proc/x"):
        try:
            await sandbox.write(path, b"x")
            raise AssertionError(f"wrote {path!r}")
        except OSError as error:
            assert error.filename == path, error


async def read_follows_links_inside_the_sandbox(sandbox: Sandbox) -> None:
    await output_of(sandbox, "ln -s /workspace/kept good; ln -s /etc/shadow bad; ln -s ../../../../etc/shadow worse")
    assert await sandbox.read("good") == b"kept\n"
    for name in ("bad", "worse"):
        with raises(FileNotFoundError, PermissionError):
            await sandbox.read(name)


async def reports_every_kind_of_change(sandbox: Sandbox) -> None:
    commands = (
        "echo new >new; echo edit >>edited; rm gone; touch touched; cp kept tmp; cat tmp >kept; rm tmp; "
        "ln -s /etc/shadow link; mkfifo pipe; rm -r folder; chmod +x plain; echo data >turned.tmp; rm -r turned; "
        "mv turned.tmp turned; rm flat; mkdir flat; echo in >flat/in; mkdir -p only/folders; ln new hard; "
        "rm -r rebuilt; mkdir rebuilt; echo b >rebuilt/b"
    )
    assert await sandbox.changes() == []
    await output_of(sandbox, commands)
    changes = {change.path: change for change in await sandbox.changes()}
    kinds = {path: change.kind for path, change in changes.items()}
    assert kinds == {
        "new": "file",
        "edited": "file",
        "gone": "deleted",
        "link": "symlink",
        "pipe": "special",
        "folder": "deleted",
        "plain": "file",
        "turned": "file",
        "flat": "deleted",
        "flat/in": "file",
        "hard": "file",
        "rebuilt/a": "deleted",
        "rebuilt/b": "file",
    }, kinds
    assert list(changes) == sorted(changes)
    assert changes["new"].content == b"new\n" and changes["new"].size == 4 and not changes["new"].executable
    assert changes["plain"].executable and changes["link"].content == b"/etc/shadow"


async def bounds_what_it_reports(sandbox: Sandbox) -> None:
    await output_of(sandbox, "head -c 5000 /dev/zero >big; truncate -s 8M sparse; echo s >small; chmod 0 small")
    changes = {change.path: change for change in await sandbox.changes(max_bytes=4096)}
    assert (changes["big"].size, changes["big"].content) == (5000, None)
    assert (changes["sparse"].size, changes["sparse"].content) == (8 * MIB, None)
    assert changes["small"].content == b"s\n"
    await output_of(sandbox, "seq 30 | xargs touch")
    with raises(ValueError, text="20"):
        await sandbox.changes(max_files=20)


async def survives_odd_names_and_deep_folders(sandbox: Sandbox) -> None:
    deep = "import os\nfor _ in range(400): os.mkdir('d' * 50); os.chdir('d' * 50)\nopen('f', 'w').close()"
    await output_of(sandbox, "printf x >$'a\\xff\\n'; mkdir locked; echo x >locked/x; chmod 0 locked")
    changes = {change.path: change.kind for change in await sandbox.changes()}
    assert changes == {"a\udcff\n": "file", "locked/x": "file"}, changes
    assert (await sandbox.exec(python(deep))).exit_code == 0
    by_kind = {change.kind: change.path for change in await sandbox.changes()}
    assert "special" in by_kind and by_kind["special"].startswith("d" * 50)
    await sandbox.reset()
    assert await sandbox.changes() == []
