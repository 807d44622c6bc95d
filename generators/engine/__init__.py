"""Many small changes of one Snapshot, tried in one process that has imported the package and collected its tests.

Reading order:

1. ``trials_plugin``: runs inside the sandbox; forks once per trial, exchanges the changed functions and runs the tests.
2. ``warm_suite``: sends trials to it and reads their results.
3. ``screening``: rejects candidates that no test notices, before the full proof.
"""
