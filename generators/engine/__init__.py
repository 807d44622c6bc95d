"""Many small changes of one Snapshot, tried in one process that has imported the package and collected its tests.

Reading order:

1. ``code_exchange``: runs inside the sandbox; gives functions of the package other code.
2. ``trials_plugin``: runs inside the sandbox; forks once per trial, exchanges the changed functions and runs the tests.
3. ``warm_suite``: sends trials to it and reads their results.
4. ``screening``: rejects candidates that no test notices, before the full proof.
5. ``warm_batch``: collects what candidates that are judged side by side need, for one run.
"""
