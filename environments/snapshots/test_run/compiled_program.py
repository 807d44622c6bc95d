"""Programs that run in a sandbox from their standard input, compiled in advance: to compile one takes longer than most
test runs and calls.

A program is the texts of files that run in order, in one namespace. It is sent twice: compiled by this Python, and as
text for other versions of Python.
"""

from __future__ import annotations

import functools
import marshal
from importlib.util import MAGIC_NUMBER

RUN_PROGRAM = """
import marshal as _marshal, sys as _sys, importlib.util as _util

def _program():
    stream = _sys.stdin.buffer
    magic, compiled_size, text_size = stream.readline().split()
    compiled, text = stream.read(int(compiled_size)), stream.read(int(text_size))
    is_same = bytes.fromhex(magic.decode()) == _util.MAGIC_NUMBER
    return _marshal.loads(compiled if is_same else text)

for _part in _program():
    exec(_part)
"""
"""Text of a program that runs the program at the beginning of its standard input and leaves the remaining input to
it."""


@functools.lru_cache(maxsize=16)
def compiled_program(parts: tuple[str, ...]) -> bytes:
    """Return the texts in the format that RUN_PROGRAM reads."""
    codes = [compile(part, "<string>", "exec", dont_inherit=True, optimize=2) for part in parts]
    compiled, text = (marshal.dumps(item) for item in (codes, parts))
    return b"%s %d %d\n%s%s" % (MAGIC_NUMBER.hex().encode(), len(compiled), len(text), compiled, text)
