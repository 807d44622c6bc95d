"""Mutation: a mistake is put into tested code, and the agent finds and corrects it from a bug report.

Reading order: ``family`` turns a mistake into a Candidate, ``bug_report`` is the statement. ``bug_operator`` takes
mutants of ``python/mutants.py``. The other generators are sets of ``rules`` over syntax nodes, with ``places/``;
``bug_masking`` pairs their mistakes, and ``bug_llm`` lets a model write one.
"""
