"""Renamed twins: copies of accepted tasks whose identifiers have other names, in sources, tests, documents and text.

A policy that solves tasks by remembering the repository solves fewer twins. ``external_names`` and ``string_uses`` say
which names must stay, ``naming`` makes the new ones, ``local_names`` renames variables and parameters where they are
used, ``renaming`` applies all of it to a tree, ``plan`` chooses the names of one Snapshot and proves them by its own
tests, ``renamed_twin`` makes and proves the row of one task, ``renamed_rows`` those of a set.
"""
