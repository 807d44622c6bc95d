"""Checks of saving the writable layer, and of restoring it in the same or another sandbox over the same layers."""

from __future__ import annotations

from ....errors import SandboxError
from ..protocol import MIB, Sandbox
from .checking import Opener, needs, output_of, raises

# Kind, mode, links, size and target of every entry; the times of files alone, since saving touches folders.
_LIST_COMMAND = (
    "cd {0} && find . -mindepth 1 \\( -type d -printf '%P %y %m\\n' -o -type f -printf '%P %y %m %n %s %Ts\\n' "
    "-o -printf '%P %y %m %l\\n' \\) | LC_ALL=C sort | tr -c '[:print:]\\n' '?'; "
    "find . -type f -perm -400 -print0 | LC_ALL=C sort -z | xargs -0r sha256sum | tr -c '[:print:]\\n' '?'"
)


async def _listing(sandbox: Sandbox, folder: str = "/workspace") -> str:
    """Return everything that a command can see of a folder."""
    return await output_of(sandbox, _LIST_COMMAND.format(folder))


async def restores_edits_new_files_and_deletions(sandbox: Sandbox) -> None:
    await output_of(sandbox, "echo more >>edited; rm gone; mkdir -p new/er; echo n >new/er/file; mv plain moved")
    before, changes = await _listing(sandbox), await sandbox.changes()
    saved = await sandbox.save()
    await output_of(sandbox, "echo again >gone; rm -r new; rm edited; echo x >kept; echo y >later; mv moved plain")
    await sandbox.restore(saved)
    assert await _listing(sandbox) == before
    assert await sandbox.changes() == changes
    await output_of(sandbox, "echo usable >new/er/next; rm -r folder new; mkdir new")
    await sandbox.reset()
    assert await sandbox.changes() == []


async def restores_folders_that_were_replaced(sandbox: Sandbox) -> None:
    commands = (
        "rm -r folder turned rebuilt; mkdir rebuilt; echo b >rebuilt/b; echo file >turned; rm flat; "
        "mkdir -p flat/deep empty/of/files"
    )
    await output_of(sandbox, commands)
    before = await _listing(sandbox)
    saved = await sandbox.save()
    await output_of(sandbox, "mkdir -p folder/a; echo b >folder/a/b; echo a >rebuilt/a; rm turned; mkdir turned")
    await sandbox.restore(saved)
    assert await _listing(sandbox) == before
    # A folder that was deleted comes back empty.
    assert await output_of(sandbox, "mkdir folder; ls -A folder rebuilt") == "folder:\n\nrebuilt:\nb"


async def restores_modes_links_times_and_odd_files(sandbox: Sandbox) -> None:
    commands = (
        "chmod +x plain; chmod 640 edited; echo s >secret; chmod 0 secret; touch -d @1234567890 kept touched; "
        "ln -s /etc/shadow link; ln -s nowhere dangling; echo h >hard; mkdir sub; ln hard sub/harder; mkfifo pipe; "
        "printf x >$'a\\xff\\n'; echo l >'-rf'; mkdir locked; echo x >locked/x; chmod 500 locked; "
        "truncate -s 8M sparse; printf middle | dd of=sparse bs=1 seek=4000000 conv=notrunc 2>/dev/null; "
        "chmod 1777 sub; chmod 711 folder; printf '#!/bin/sh\\necho ran\\n' >run; chmod 755 run; touch -d @1 run"
    )
    await output_of(sandbox, commands)
    before = await _listing(sandbox)
    saved = await sandbox.save()
    await sandbox.reset()
    assert await _listing(sandbox) != before
    await sandbox.restore(saved)
    assert await _listing(sandbox) == before
    assert await output_of(sandbox, "echo more >>sub/harder; cat hard; ./run") == "h\nmore\nran"
    assert int(await output_of(sandbox, "du -k sparse | cut -f1")) <= 1024
    saved.close()


async def restores_the_temporary_folder(sandbox: Sandbox) -> None:
    await output_of(sandbox, "mkdir -p /tmp/a/b; echo t >/tmp/a/b/c; chmod 700 /tmp/a; ln -s a /tmp/l; echo w >w")
    before = await _listing(sandbox, "/tmp")
    saved = await sandbox.save()
    await output_of(sandbox, "rm -r /tmp/a /tmp/l; echo later >/tmp/later")
    await sandbox.restore(saved)
    assert await _listing(sandbox, "/tmp") == before
    assert await output_of(sandbox, "stat -c %a /tmp; echo ok >/tmp/new; cat /tmp/a/b/c w") == "1777\nt\nw"


@needs("shared-memory")
async def restores_shared_memory_files(sandbox: Sandbox) -> None:
    await output_of(sandbox, "echo s >/dev/shm/segment; chmod 600 /dev/shm/segment")
    saved = await sandbox.save()
    await output_of(sandbox, "echo other >/dev/shm/segment; echo l >/dev/shm/later")
    await sandbox.restore(saved)
    assert await output_of(sandbox, "cat /dev/shm/*; stat -c %a /dev/shm/segment") == "s\n600"


async def a_save_is_a_snapshot_good_for_many_restores(sandbox: Sandbox) -> None:
    mapped = (
        "import mmap\nwith open('file', 'r+b') as file, mmap.mmap(file.fileno(), 0) as memory: memory[0:5] = b'FIRST'"
    )
    empty = await sandbox.save()
    await output_of(sandbox, "echo first >file; mkdir folder2; echo a >folder2/a")
    first = await sandbox.save()
    # The same size and the same times: only the content differs.
    await output_of(sandbox, f'touch -r file times; /usr/bin/python3 -ISc "{mapped}"; touch -r times file')
    second = await sandbox.save()
    await output_of(sandbox, "rm -r folder2 file; echo third >third")
    third, again = await sandbox.save(), await sandbox.save()
    for _ in range(2):
        await sandbox.restore(first)
        assert await output_of(sandbox, "cat file folder2/a; ls | grep -c third || true") == "first\na\n0"
        await output_of(sandbox, "echo spoilt >file; rm -r folder2")
        await sandbox.restore(second)
        assert await output_of(sandbox, "cat file folder2/a") == "FIRST\na"
        for saved in (third, again):
            await sandbox.restore(saved)
            assert await output_of(sandbox, "cat third; ls | grep -c f.*2 || true") == "third\n0"
    first.close()
    first.close()
    await sandbox.restore(empty)
    assert await sandbox.changes() == []
    await sandbox.restore(second)
    assert await output_of(sandbox, "cat file") == "FIRST"
    with raises(SandboxError, text="closed"):
        await sandbox.restore(first)


async def restores_in_another_sandbox(opened: Opener) -> None:
    async with opened() as sandbox:
        await output_of(sandbox, "rm -r folder; echo e >>edited; echo t >/tmp/t; mkdir d; ln -s d l")
        before = await _listing(sandbox)
        saved = await sandbox.save()
        async with opened() as other:
            await output_of(other, "echo other >other; rm edited")
            await other.restore(saved)
            assert await _listing(other) == before
            await output_of(other, "rm -r d edited; echo u >/tmp/t")
        assert await _listing(sandbox) == before
    # The sandbox that it was saved from is gone.
    async with opened() as third:
        await third.restore(saved)
        assert await _listing(third) == before
        assert await output_of(third, "cat /tmp/t") == "t"


async def bounds_what_it_saves(sandbox: Sandbox) -> None:
    await output_of(sandbox, "echo small >small")
    small = await sandbox.save()
    await output_of(sandbox, "head -c 3000000 /dev/urandom >big; mkdir many; cd many; seq 300 | xargs touch")
    for bounds in ({"max_bytes": 1 * MIB}, {"max_files": 200}):
        with raises(ValueError, text=str(*bounds.values())):
            await sandbox.save(**bounds)
    large = await sandbox.save()
    assert large.size >= 2_000_000 and small.size < 1 * MIB, (large.size, small.size)
    # A disk that is full, of bytes and of files, does not prevent it.
    await sandbox.exec("head -c 14M /dev/zero >fill; seq 5000 | xargs touch; true")
    await sandbox.restore(small)
    assert [change.path for change in await sandbox.changes()] == ["small"]
    await sandbox.write("next", b"x" * MIB)
    await sandbox.restore(large)
    assert await output_of(sandbox, "ls many | wc -l; stat -c %s big") == "300\n3000000"
