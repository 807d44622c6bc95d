"""Benchmarks side by side with other projects: the same actions, each project in a separate environment.

Reading order: ``clock`` (the actions and their times), ``peers/`` (one script per project, run by that project's
interpreter), ``sandboxes`` (Etude's own sandboxes under the same clock), ``wire`` (steps over a socket), ``projects``
(the projects, their versions and environments), ``table`` (the results as a table and a plot).
"""
