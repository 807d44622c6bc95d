"""Address of the application: ``etude.server.app:app``, or ``server.app:app`` from the repository's root.

``app`` is made on first access, from environment variables. Under both names the modules load once, as ``etude``'s.
"""

from __future__ import annotations

from typing import Any

if __package__ and "." in __package__:
    from .application import app_from_environment, create_app
    from .serving import main as _main
    from .serving import serve
else:
    from etude.server.application import app_from_environment, create_app
    from etude.server.serving import main as _main
    from etude.server.serving import serve

__all__ = ["create_app", "main", "serve"]


def __getattr__(name: str) -> Any:
    if name == "app":
        globals()["app"] = app_from_environment()
        return globals()["app"]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def main() -> None:
    """Serve until interrupted, configured by environment variables."""
    _main()


if __name__ == "__main__":
    main()
