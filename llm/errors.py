"""What can go wrong when a model is asked; each message is one line to show."""

from __future__ import annotations


class LLMError(Exception):
    """A model could not be asked; the message is one line."""


class EndpointRefused(LLMError):
    """Nothing will work until a setting changes."""


class EndpointFailed(LLMError):
    """This call got no answer; another one may."""


class Unavailable(EndpointFailed):
    """The endpoint did not answer for as long as we try, whatever it was asked: another call fares no better now."""


class ContextFull(EndpointFailed):
    """The messages are longer than the model reads."""


class AccessDenied(EndpointFailed):
    """This call was refused, after others were answered, for the key or the account's credit: a reason to ask no more,
    though another one may get an answer."""


class BudgetSpent(LLMError):
    """The budget allows no further call."""


class CassetteMiss(LLMError):
    """The cassette does not hold this request."""


class Again(Exception):
    """An attempt failed and another may not. ``lost``: it may be charged for; ``wait``: seconds that were asked for."""

    def __init__(self, cause: str, *, wait: float | None = None, lost: bool = False) -> None:
        super().__init__(cause)
        self.wait = wait
        self.lost = lost


def one_line(text: object) -> str:
    """What others wrote, as a terminal can show it: 300 characters at most, none that moves its cursor."""
    line = " ".join(str(text).split())[:300]
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in line)
