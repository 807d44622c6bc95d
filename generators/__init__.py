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
        "fd_module": ".generators.library.deletion.whole_module.module_deletion:ModuleDeletion",
        "fd_exception_path": ".generators.library.deletion.partial.exception_path:ExceptionPathDeletion",
        "fd_parameter": ".generators.library.deletion.partial.parameter:ParameterDeletion",
        "fd_cli_option": ".generators.library.deletion.partial.cli_option:CommandOptionDeletion",
        "bug_operator": ".generators.library.mutation.bug_operator:OperatorBug",
        "history_revert": ".generators.library.history.revert:HistoryRevert",
        "history_pr": ".generators.library.history.pull_request:HistoryPullRequest",
    },
)
