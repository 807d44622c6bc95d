"""Generators of tasks from a repository's own history: what a commit or a pull request changed is taken back.

Reading order: ``family`` (the base of both generators), ``repository`` (commits and merges, read from git objects),
``message`` (from a commit's message to prose), ``reversal`` (the change taken back in today's tree), ``own_tests``
(the tests that came with it), ``statement``.
"""
