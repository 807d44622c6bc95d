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
        "fd_feature": ".generators.library.deletion.joint.feature:FeatureDeletion",
        "fd_skeleton": ".generators.library.deletion.joint.skeleton:Skeleton",
        "fd_agentic": ".generators.library.deletion.joint.agentic:AgenticDeletion",
        "fd_module": ".generators.library.deletion.whole_module.module_deletion:ModuleDeletion",
        "fd_exception_path": ".generators.library.deletion.partial.exception_path:ExceptionPathDeletion",
        "fd_parameter": ".generators.library.deletion.partial.parameter:ParameterDeletion",
        "fd_cli_option": ".generators.library.deletion.partial.cli_option:CommandOptionDeletion",
        "bug_operator": ".generators.library.mutation.bug_operator:OperatorBug",
        "write_tests": ".generators.library.authoring.write_tests:TestWriting",
        "reproduce_bug": ".generators.library.authoring.reproduce_bug:BugReproduction",
        "code_question": ".generators.library.authoring.code_question:CodeQuestions",
        "tdd_step": ".generators.library.authoring.tdd_step:TestDrivenStep",
        "bug_arithmetic": ".generators.library.mutation.bug_arithmetic:ArithmeticBug",
        "bug_control_flow": ".generators.library.mutation.bug_control_flow:ControlFlowBug",
        "bug_removed_statement": ".generators.library.mutation.bug_removed_statement:RemovedStatementBug",
        "bug_call": ".generators.library.mutation.bug_call:CallBug",
        "bug_exception": ".generators.library.mutation.bug_exception:ExceptionBug",
        "bug_class": ".generators.library.mutation.bug_class:ClassBug",
        "bug_shared_state": ".generators.library.mutation.bug_shared_state:SharedStateBug",
        "bug_protocol": ".generators.library.mutation.bug_protocol:ProtocolBug",
        "bug_concurrency": ".generators.library.mutation.bug_concurrency:ConcurrencyBug",
        "bug_masking": ".generators.library.mutation.bug_masking:MaskingBug",
        "bug_llm": ".generators.library.mutation.bug_llm:LLMBug",
        "doctest_repair": ".generators.library.upkeep.doctest_repair:DoctestRepair",
        "perf_regression": ".generators.library.upkeep.perf_regression:PerfRegression",
        "repair_packaging": ".generators.library.upkeep.repair_packaging:RepairPackaging",
        "migrate_dependency": ".generators.library.upkeep.migrate_dependency:DependencyMigration",
        "add_types": ".generators.library.refactor.add_types:AddTypes",
        "rename_api": ".generators.library.refactor.rename_api:RenameApi",
        "move_symbol": ".generators.library.refactor.move_symbol:MoveSymbol",
        "history_revert": ".generators.library.history.revert:HistoryRevert",
        "history_pr": ".generators.library.history.pull_request:HistoryPullRequest",
    },
)
