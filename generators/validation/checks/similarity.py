"""How similar two texts of code are: Jaccard's index of their shingles, and MinHash to find similar ones among many.

A shingle is SHINGLE tokens in a row. MinHash (Broder 1997) estimates Jaccard's index as the share of equal minima under
random permutations; texts that agree in a whole band of minima are compared exactly. With BANDS bands of ROWS minima,
two texts of index 0.8 agree in one with probability 1 - (1 - 0.8**4)**16 > 0.999.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterable, Iterator, Sequence

SHINGLE = 5
BANDS, ROWS = 16, 4
_PRIME = (1 << 61) - 1
_TOKEN = re.compile(r"\w+|[^\w\s]")
_numbers = random.Random("minhash")
_PERMUTATIONS = [(_numbers.randrange(1, _PRIME), _numbers.randrange(_PRIME)) for _ in range(BANDS * ROWS)]


def shingles(lines: Iterable[str], mark: str = "") -> frozenset[int]:
    """Return a hash of every SHINGLE consecutive tokens; layout and comments that fill a line do not count."""
    tokens = [token for line in lines if not line.lstrip().startswith("#") for token in _TOKEN.findall(line)]
    texts = ("\0".join([mark, *tokens[start : start + SHINGLE]]) for start in range(len(tokens) - SHINGLE + 1))
    return frozenset(_hashed(text) for text in texts)


def patch_shingles(patch: str) -> frozenset[int]:
    """Return the shingles of what a diff adds and of what it removes; equal text on the other side is not shared."""
    lines = [line for line in patch.split("\n") if not line.startswith(("+++ ", "--- "))]
    sides = (shingles((line[1:] for line in lines if line.startswith(sign)), sign) for sign in "+-")
    return frozenset().union(*sides)


def jaccard(one: frozenset[int], other: frozenset[int]) -> float:
    """Return the share of shingles that both have, 0 when neither has any."""
    return len(one & other) / len(one | other) if one or other else 0.0


def bands(of: frozenset[int]) -> Iterator[tuple[int, ...]]:
    """Yield the bands of a text's MinHash signature, each with its number; similar texts share one."""
    if not of:
        return
    minima = [min((factor * item + offset) % _PRIME for item in of) for factor, offset in _PERMUTATIONS]
    for number in range(BANDS):
        yield (number, *_rows(minima, number))


def _rows(minima: Sequence[int], number: int) -> Sequence[int]:
    return minima[number * ROWS : (number + 1) * ROWS]


def _hashed(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=7).digest(), "big")
