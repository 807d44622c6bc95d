"""Running a recipe.

Read ``train.py`` first: it checks (``preflight.py``, ``run_dir.py``), builds (``builder.py``, ``model_loading.py``,
``memory_check.py``) and runs (``loop.py``). ``callbacks.py``, ``kill_switch.py`` and ``checkpoints.py`` act during
training, and ``records.py`` has the records between these modules.
"""
