"""Numbers of the containers and objects of one test's calls (see ``encoding.py``).

The text of this file is also run inside sandboxes, before that of ``encoding.py``, on Python 3.8 and later.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

MAX_NAME = 80
"""Most characters of an owner in a number; the hash of a longer one stands for it."""


class Numbering:
    """Gives each container and object a number that names it in all later messages of a test.

    The side that calls counts 1, 2, ... An answer to call ``k`` counts ``"k.1"``, ``"k.2"``, ..., so that a longer
    answer does not shift the numbers of later ones. What attribute ``a`` of object ``n`` holds has ``"k.n/a.1"``, ...:
    private state that another solution does not have does not shift other numbers.
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
        """Return the form of an object's attribute; numbers of new objects in it name both."""
        before = self._prefix, self.answered
        owner = f"{number}/{name}"
        if len(owner) > MAX_NAME:
            owner = "/" + hashlib.sha256(owner.encode("utf-8", "replace")).hexdigest()[:16]
        self._prefix, self.answered = f"{self.answering}.{owner}", 0
        try:
            return encode(item)
        finally:
            self._prefix, self.answered = before
