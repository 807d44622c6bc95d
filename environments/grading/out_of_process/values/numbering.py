"""Numbers of the containers and objects of one test's calls (see ``encoding.py``).

The text of this file is also run inside sandboxes, before that of ``encoding.py``, on Python 3.8 and later.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

MAX_NAME = 80
"""Most characters of an owner in a number; a longer one is given by its hash."""


class Numbering:
    """Gives each object a number for the rest of a test.

    A caller counts 1, 2, ...; an answer to call ``k`` gives ``"k.1"``, ``"k.2"``, ..., and to what attribute ``a`` of
    object ``n`` holds ``"k.n/a.1"``, ...: private state that another solution does not have shifts no other number.
    """

    def __init__(self) -> None:
        self.numbers: dict[int, Any] = {}
        self.objects: dict[Any, Any] = {}
        self.count = self.answered = 0
        self.answering = self._prefix = ""

    def number_from(self, answering: str) -> None:
        """Start a message: a call, or the answer to the call ``answering``."""
        self.answering = self._prefix = answering
        self.answered = 0

    def add(self, value: Any) -> Any:
        """Give an object its number for the rest of the test."""
        if self.answering:
            number: Any = None
            while number is None or number in self.objects:  # an attribute may be taken apart twice
                self.answered += 1
                number = f"{self._prefix}.{self.answered}"
        else:
            self.count += 1
            number = self.count
        self.numbers[id(value)] = number
        self.objects[number] = value
        return number

    def owned(self, number: Any, name: Any, item: Any, encode: Callable[[Any], Any]) -> Any:
        """Return the form of an object's attribute; what an answer adds there is named after the two."""
        before = self._prefix, self.answered
        owner = f"{number}/{name}"
        if len(owner) > MAX_NAME:
            owner = "/" + hashlib.sha256(owner.encode("utf-8", "replace")).hexdigest()[:16]
        self._prefix, self.answered = f"{self.answering}.{owner}", 0
        try:
            return encode(item)
        finally:
            self._prefix, self.answered = before
