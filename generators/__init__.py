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
        "doctest_repair": ".generators.library.upkeep.doctest_repair:DoctestRepair",
        "perf_regression": ".generators.library.upkeep.perf_regression:PerfRegression",
        "repair_packaging": ".generators.library.upkeep.repair_packaging:RepairPackaging",
        "history_revert": ".generators.library.history.revert:HistoryRevert",
        "history_pr": ".generators.library.history.pull_request:HistoryPullRequest",
    },
)
