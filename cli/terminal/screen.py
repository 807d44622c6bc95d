"""Screen and keyboard of ``etude play``: texts without control characters, and lines from a terminal or a pipe."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import IO

import typer

from ...models import ErrorTurn, ToolMessage


class Screen:
    """Prints to one stream, and reads lines from stdin."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._is_terminal = sys.stdin.isatty() and stream.isatty()
        if self._is_terminal:
            import readline  # noqa: F401  # the import gives input() its history and its editing keys

    def show(self, text: str = "", colour: str | None = None) -> None:
        """Print a text; a program's output cannot change the terminal with it."""
        shown = printable(text)
        styled = typer.style(shown, fg=colour) if colour and self._stream.isatty() else shown
        print(styled, file=self._stream, flush=True)

    def show_results(self, messages: Sequence[ToolMessage]) -> None:
        """Print the results of a turn's calls."""
        for message in messages:
            self.show(message.content)

    def show_errors(self, errors: Sequence[ErrorTurn]) -> None:
        """Print error turns with the hints that an agent would get."""
        for error in errors:
            self.show(f"error turn ({error.kind}): {error.message}", typer.colors.RED)
            for hint in error.hints:
                self.show(f"hint: {hint.text}", typer.colors.YELLOW)

    def read(self, prompt: str) -> str:
        """Return the next line that is typed. Raises EOFError when there is none."""
        if self._is_terminal and self._stream is sys.stdout:
            return input(prompt)
        print(prompt, end="", file=self._stream, flush=True)
        line = sys.stdin.readline()
        if not line:
            print(file=self._stream)
            raise EOFError
        if not sys.stdin.isatty():  # so that the output of a scripted play reads like a session
            print(line.rstrip("\n"), file=self._stream, flush=True)
        return line.rstrip("\n")


def printable(text: str) -> str:
    """Return the text with control characters, except line breaks and tabs, written as escapes."""
    return "".join(
        char if char in "\n\t" or (char.isprintable() or char == "\u00a0") else ascii(char)[1:-1] for char in text
    )
