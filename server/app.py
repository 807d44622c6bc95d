"""The application's address: ``etude.server.app:app``, or ``server.app:app`` from the repository's root.

``app`` is made when it is asked for, from ETUDE_TASKS. Under either name the modules load as ``etude``'s, once.
"""

from __future__ import annotations

from typing import Any

if __package__ and "." in __package__:
    from .serving import app_from_environment, create_app, load_tasks, serve
    from .serving import main as _main
else:
    from etude.server.serving import app_from_environment, create_app, load_tasks, serve
    from etude.server.serving import main as _main

__all__ = ["create_app", "load_tasks", "main", "serve"]


def __getattr__(name: str) -> Any:
    if name == "app":
        globals()["app"] = app_from_environment()
        return globals()["app"]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def main() -> None:
    """Serve until told to stop; the environment says what and where."""
    _main()


if __name__ == "__main__":
    main()
