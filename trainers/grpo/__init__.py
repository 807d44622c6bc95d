"""The reference trainer.

``trainer.py`` has the calls of one step in its docstring: read it first, then ``scored_batch.py``, the record between
scoring and loss. ``parts.py`` lists what a trainer is built from, ``objectives.py`` the variants of GRPO.
"""
