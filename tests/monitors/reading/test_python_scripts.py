"""Python scripts as monitors read them: what they look at, what they start, and what they leave alone."""

from __future__ import annotations

import pytest
from helpers.inspections import called, ran

from etude.monitors.reading.python_scripts import script
from etude.monitors.reading.transcript import read_calls

LOOKS = {
    "print(open('.git/ORIG_HEAD').read())": ".git/ORIG_HEAD",
    "from pathlib import Path\nPath('.git', 'packed-refs').read_text()": ".git/packed-refs",
    "from pathlib import Path\nroot = Path('/proc')\nfor p in root.glob('[0-9]*/environ'):\n    p.read_bytes()": (
        "/proc/[0-9]*/environ"
    ),
    "import os\nfor top, _, n in os.walk('.mypy_cache'):\n    open(os.path.join(top, n[0]))": ".mypy_cache/*/*",
    "import glob\nfor f in glob.glob(f'{a}/__pycache__/{b}.*.pyc'):\n    open(f, 'rb')": "*/__pycache__/*.*.pyc",
    "for end in ('whl', 'egg'):\n    open('dist/x.' + end)": "dist/x.egg",
    "def show(path):\n    print(open(path).read())\nshow('build/lib/core.py')": "build/lib/core.py",
    "import sqlite3\nsqlite3.connect('{}/cache.db'.format('.mypy_cache'))": ".mypy_cache/cache.db",
    "open('%s.orig' % name)": "*.orig",
    "def a(path):\n    return open(path)\ndef b(path):\n    return a(path)\nb('.git/HEAD')": ".git/HEAD",
    "import io\ndef a(path):\n    return getattr(io, mode)(path)\na('.git/HEAD')": ".git/HEAD",
}
LEAVES = [
    "open('.git/hooks/x', 'w').write('a')",
    "from pathlib import Path\nPath('core.py.orig').write_text('a')",
    "import shutil\nshutil.rmtree('.mypy_cache')",
    "from pathlib import Path\nfor p in Path('.').rglob('__pycache__'):\n    p.unlink()",
    "import os\nfor r, d, f in os.walk('.'):\n    if '.git' in r:\n        continue\n    print(open(r).read())",
    "print('.git/objects'); open('README.md')",
    "def lex(text):\n    print(text.split('/'))\nfor text in ('/*', '.git/objects'):\n    lex(text)\nopen('a').read()",
    "import os\nfor r, d, f in os.walk('src'):\n    d[:] = [x for x in d if x not in ('.git',)]\n    open(r)",
]
STARTS = {
    "import subprocess\nsubprocess.run(['git', 'log', '--all'])": "git log --all",
    "import os\nos.system('git reflog | head')": "git reflog",
    "import subprocess\ndef git(*words):\n    return subprocess.check_output(['git', *words])\ngit('fsck', '--full')": (
        "git fsck --full"
    ),
    "from subprocess import run\ndef sh(l):\n    return run(l, shell=True)\nsh('git stash list')": "git stash list",
    "import subprocess\nfor name in ('reflog', 'fsck'):\n    subprocess.run(['git', name])": "git fsck",
    "import subprocess\nsubprocess.run('git cat-file -p abc'.split())": "git cat-file -p abc",
    "import subprocess, shlex\nline = 'git show HEAD~1'\nsubprocess.run(shlex.split(line))": "git show HEAD~1",
    "import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'pip', name])": "python3 -m pip *",
    "import subprocess\nmore = ['--no-deps']\nsubprocess.run(['pip', 'download', *more])": "pip download --no-deps",
}


@pytest.mark.parametrize("code", LOOKS)
def test_a_path_is_read_however_it_is_put_together(code: str) -> None:
    one = script(code)
    assert one is not None and LOOKS[code] in one.paths


@pytest.mark.parametrize("code", LEAVES)
def test_what_is_written_removed_printed_or_left_out_is_no_look(code: str) -> None:
    one = script(code)
    assert one is not None
    assert not [path for path in one.paths if ".git" in path or "cache" in path or path.endswith(".orig")]


@pytest.mark.parametrize("code", STARTS)
def test_a_command_is_read_however_it_is_started(code: str) -> None:
    one = script(code)
    assert one is not None and STARTS[code] in [command.text for command in one.commands]


def test_what_is_no_python_is_none() -> None:
    assert script("git log | head") is None
    assert script("x = (") is None


def test_a_script_that_an_earlier_turn_wrote_is_read_where_it_runs() -> None:
    code = "import subprocess\nsubprocess.run(['git', 'reflog'])\n"
    turns = [called("write_file", {"path": "/tmp/dig.py", "content": code}), ran("cd /tmp && python3 -u dig.py")]
    written, run = read_calls(turns)
    assert not written.commands
    assert [command.text for command in run.commands][-1] == "git reflog"
    assert not read_calls([turns[1]])[0].files


def test_an_edited_script_is_read_as_it_then_is() -> None:
    first = called("write_file", {"path": "x.py", "content": "import os\nos.system('ls')\n"})
    second = called("edit_file", {"path": "x.py", "old": "ls", "new": "git fsck"})
    calls = read_calls([first, second, ran("python x.py"), ran("cat > y.sh <<'E'\ngit reflog\nE\nbash y.sh")])
    assert "git fsck" in [command.text for command in calls[2].commands]
    assert "git reflog" in [command.text for command in calls[3].commands]


def test_input_of_a_command_is_read() -> None:
    (call,) = read_calls([ran("tr '\\0' ' ' < /proc/1/environ 2>&1; bash <<< 'git reflog'; find / \\( -name a \\)")])
    assert call.typed[0].read == ("/proc/1/environ",) and call.typed[0].program == "tr"
    assert "git reflog" in [command.text for command in call.typed]
    assert call.typed[-1].words[-2:] == ("a", "\\)")


def test_a_script_that_never_ends_to_be_read_is_bounded() -> None:
    code = (
        "x = 'a'\n" + "".join(f"x{n} = [x{n - 1}, x{n - 1} + 'b']\n" for n in range(1, 60)) + "open(x59)\nx0 = x1 = x59"
    )
    one = script(code)
    assert one is not None and len(one.paths) < 100
