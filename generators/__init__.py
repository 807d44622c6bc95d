"""Generators: real code bases in, validated tasks out. `base.py` says what a generator is."""

from __future__ import annotations

from ..registry import Registry

GENERATORS = Registry(
    "generator",
    "etude.generators",
    {
        "fd_function": ".generators.library.deletion.function:FunctionDeletion",
        "fd_method": ".generators.library.deletion.method:MethodDeletion",
        "fd_class": ".generators.library.deletion.class_:ClassDeletion",
        "bug_operator": ".generators.library.mutation.bug_operator:OperatorBug",
        "add_types": ".generators.library.refactoring.add_types:AddTypes",
        "rename_api": ".generators.library.refactoring.rename_api:RenameApi",
        "move_symbol": ".generators.library.refactoring.move_symbol:MoveSymbol",
        "history_revert": ".generators.library.history.revert:HistoryRevert",
        "history_pr": ".generators.library.history.pull_request:HistoryPullRequest",
    },
)
