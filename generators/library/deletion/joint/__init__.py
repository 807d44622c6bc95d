"""Deletions of many definitions at once: features, whole packages, and what a language model proposes.

Reading order: ``clusters`` (which definitions belong together), ``joint_cut`` (the changed files), ``joint_statement``
and ``feature_title`` (the text), ``proposal`` (all of it as a Candidate), then the generators ``feature``,
``skeleton`` and ``agentic``.
"""
