"""Builder of Snapshots.

Reading order: ``build`` (entry points), ``build_steps`` (one build), ``dependencies``, ``environment``,
``interpreter``; ``packages`` and ``uv_command`` call uv.
"""
