"""Builder of Snapshots.

Reading order: ``build`` (entry points), ``build_steps`` (one build), ``dependencies``, ``environment``,
``interpreter``; ``packages``, ``uv_command`` and ``uv_settings`` call uv.
"""
