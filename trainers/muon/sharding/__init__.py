"""Sharded models: where parameters are, who owns which matrix, and how matrices travel.

Read ``shards.py`` for layouts, ``exchange_plan.py`` for owners, ``routes.py`` and ``exchange.py`` for what is sent.
"""
