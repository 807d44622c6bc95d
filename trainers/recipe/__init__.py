"""Recipes of training runs: typed TOML files.

Read ``recipe.py`` for the keys, ``recipe_checks.py`` for the rules between them, ``load.py`` for how a file becomes a
``Recipe``.
"""
