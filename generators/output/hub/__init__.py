"""Folders as repositories of the Hub: ``repo_tree`` (the files and their manifest), one module for each kind of content
(``tasks_repo``, ``episodes_repo``, ``model_repo``), ``parquet`` (typed columns), ``push`` (the upload).
"""
