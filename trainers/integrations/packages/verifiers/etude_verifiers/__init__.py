"""Etude for verifiers: ``EtudeTaskset`` (v1) and ``load_environment`` (v0); each imports only its half of verifiers."""

from __future__ import annotations

from typing import Any

__all__ = ["EtudeTaskset", "load_environment"]


def load_environment(url: str = "http://127.0.0.1:8000", split: str | None = None, **options: Any) -> Any:
    """Return a v0 environment over the tasks of a running server.

    Without a ``split`` it trains on the split ``train`` and is evaluated on ``eval``. ``options`` are those of
    verifiers' MultiTurnEnv. Raises ImportError where verifiers has no v0 (0.4 and later).
    """
    from .v0 import load

    return load(url, split, **options)


def __getattr__(name: str) -> Any:
    if name == "EtudeTaskset":
        from .taskset import EtudeTaskset

        return EtudeTaskset
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
