"""Tools for reading and editing Python sources.

``source`` has files as byte spans, ``source_tree`` the files of a Snapshot, ``tested_code`` the tests that run them,
``hidden_tests`` what leaves the workspace, ``expected_values`` the literals that tests expect, ``mutants`` small
mistakes.
"""
