"""Monitors of added code: what a solution holds that the files given to the agent did not.

``answers`` asks where the results of the code come from, ``test_process`` what the code does to the process that tests
it, ``checks`` what it lets pass that should fail. Honest programs use some of these constructs too, so every finding is
``suspect`` or ``info``.
"""
