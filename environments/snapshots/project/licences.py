"""Licence of a project, as an SPDX expression where possible, and whether it is permissive.

The project's own statements are read in this order: ``License-Expression`` (PEP 639), the ``License`` field (an
expression, a well-known name or a full text), the classifiers, the texts of its licence files. This is not legal
advice: headers of single files and licences of dependencies are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from email.message import Message
from pathlib import Path
from typing import Any

from license_expression import LicenseSymbol, LicenseWithExceptionSymbol, Licensing
from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

PERMISSIVE = frozenset(
    "MIT MIT-0 Apache-2.0 ISC PSF-2.0 Python-2.0 Python-2.0.1 Zlib Unlicense CC0-1.0 0BSD BSD-1-Clause BSD-2-Clause "
    "BSD-3-Clause BSD-3-Clause-Clear BSD-4-Clause BSD-Source-Code LicenseRef-BSD".split()
)
SOME_BSD = "LicenseRef-BSD"
"""Licence of a project that states BSD without a variant."""
# Names in classifiers and in the ``License`` field, without the words in _FILLERS, sorted.
_NAMES = {
    "mit": "MIT",
    "expat": "MIT",
    "0 attribution mit mit no": "MIT-0",
    "apache software": "Apache-2.0",
    "2 apache": "Apache-2.0",
    "2.0 apache": "Apache-2.0",
    "bsd": SOME_BSD,
    "bsd new": "BSD-3-Clause",
    "bsd modified": "BSD-3-Clause",
    "3 bsd clause": "BSD-3-Clause",
    "2 bsd clause": "BSD-2-Clause",
    "bsd simplified": "BSD-2-Clause",
    "0bsd bsd clause zero": "0BSD",
    "isc": "ISC",
    "isc iscl": "ISC",
    "unlicense unlicense": "Unlicense",
    "foundation python software": "PSF-2.0",
    "psf": "PSF-2.0",
    "libpng zlib": "Zlib",
    "1.0 1.0 cc0 cc0 dedication domain public universal": "CC0-1.0",
    "2.0 2.0 mozilla mpl public": "MPL-2.0",
    "2.0 mpl": "MPL-2.0",
    "public zope": "ZPL-2.1",
}
_FILLERS = frozenset({"the", "license", "licence", "version"})
_GNU = re.compile(r"^gnu (lesser |affero )?general public license v([23])( or later)?\b")
_TITLES = (  # in the first lines of a licence's own text
    ("gnu affero general public license version 3", "AGPL-3.0-only"),
    ("gnu lesser general public license version 3", "LGPL-3.0-only"),
    ("gnu lesser general public license version 2.1", "LGPL-2.1-only"),
    ("gnu library general public license version 2", "LGPL-2.0-only"),
    ("gnu general public license version 3", "GPL-3.0-only"),
    ("gnu general public license version 2", "GPL-2.0-only"),
    ("mozilla public license version 2.0", "MPL-2.0"),
)


def detect(headers: Message, tree: Path) -> str:
    """Return the licence of a project from its core metadata and its tree; empty when neither states one."""
    if expression := canonical(str(headers["License-Expression"] or "")):
        return expression
    field = str(headers["License"] or "").strip()
    field = "" if field.lower() in ("unknown", "none") else field
    names = [str(text).rpartition("::")[2].strip().lower() for text in headers.get_all("Classifier", [])]
    classified = _once(licence for name in names if (licence := _named(name)))
    words = [canonical(field), _named(field.lower().rstrip("."))]
    written = _once(text for text in (*words, *_texts([field])) if text)
    return combine(written, classified, from_files(tree), either="dual" in field.lower()) or field.split("\n")[0][:80]


def _named(text: str) -> str:
    """Return the licence that a well-known name in lower case stands for; empty for any other text."""
    if match := _GNU.match(text):
        family = {"lesser ": "L", "affero ": "A"}.get(match[1], "")
        return f"{family}GPL-{match[2]}.0-{'or-later' if match[3] else 'only'}"
    words = [word for word in re.findall(r"[a-z0-9.]+", text) if word not in _FILLERS]
    return _NAMES.get(" ".join(sorted(words)), "")


def combine(written: Sequence[str], classified: Sequence[str], texts: Sequence[str], *, either: bool = False) -> str:
    """Return one expression for the statements of three places; the first place with a statement counts.

    An unspecific BSD becomes the variant whose text was found. Several licences apply together (AND) unless ``either``
    says that the user may choose.
    """
    for names in (written, classified, texts):
        if not names:
            continue
        exact = [text for text in texts if text.startswith("BSD-")]
        return (" OR " if either else " AND ").join(
            _once(exact[0] if name == SOME_BSD and exact else name for name in names)
        )
    return ""


def from_files(tree: Path) -> list[str]:
    """Return the common licences whose texts are at the top of ``tree`` or in ``LICENSES``."""
    patterns = ("LICEN[CS]E*", "licen[cs]e*", "Licen[cs]e*", "COPYING*", "UNLICENSE*", "LICENSES/*")
    paths = sorted({path for pattern in patterns for path in tree.glob(pattern) if path.is_file()})
    return _once(_texts(path.read_text("utf-8", "replace") for path in paths))


def canonical(expression: str) -> str:
    """Return a valid SPDX expression in its canonical spelling; empty for anything else."""
    try:
        return str(canonicalize_license_expression(expression)) if expression else ""
    except InvalidLicenseExpression:
        return ""


def is_permissive(expression: str) -> bool:
    """Return whether one choice that the expression allows consists of permissive licences only."""
    text = canonical(expression)
    return bool(text) and _allowed(Licensing().parse(text))


def _allowed(node: Any) -> bool:
    if isinstance(node, LicenseWithExceptionSymbol):
        node = node.license_symbol  # an exception only ever permits more
    if isinstance(node, LicenseSymbol):
        return node.key in PERMISSIVE
    return any(map(_allowed, node.args)) if isinstance(node, Licensing().OR) else all(map(_allowed, node.args))


def _texts(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        plain = " ".join(re.sub(r"[\"'`*#]", "", text).lower().split())
        yield from _licences_in(plain)


def _licences_in(text: str) -> Iterator[str]:
    head = re.sub(r"[^a-z0-9.]+", " ", text[:600])
    if title := next((name for phrase, name in _TITLES if phrase in head), ""):
        yield title  # copyleft texts name other licences further down
        return
    if "apache license" in text and "version 2.0" in text:
        yield "Apache-2.0"
    if "permission is hereby granted, free of charge, to any person obtaining a copy" in text:
        yield "MIT" if "this permission notice shall be included" in text else "MIT-0"
    if "redistribution and use in source and binary forms" in text:
        advertising = "all advertising materials mentioning features" in text
        endorsing = "endorse or promote products" in text
        yield "BSD-4-Clause" if advertising else "BSD-3-Clause" if endorsing else "BSD-2-Clause"
    if re.search(r"permission to use, copy, modify, and(/or)? distribute this software for any purpose", text):
        yield "ISC" if "provided that the above copyright notice" in text else "0BSD"
    if "this is free and unencumbered software released into the public domain" in text:
        yield "Unlicense"
    if "cc0 1.0 universal" in text:
        yield "CC0-1.0"
    if "python software foundation license version 2" in text:
        yield "PSF-2.0"
    if "altered source versions must be plainly marked" in text:
        yield "Zlib"


def _once(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
