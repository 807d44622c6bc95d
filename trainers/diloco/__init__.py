"""DiLoCo and streaming DiLoCo: workers that train alone and exchange parameters every H steps.

1. ``fragments.py``: the parameters that are exchanged together.
2. ``outer.py``: the outer optimizer, its schedule, its state and the bytes that it sends.
3. ``replicas.py``: what makes two processes workers of one run, also when parameters are sharded inside a worker.

Sources: DiLoCo (arXiv:2311.08105, algorithm 1), streaming DiLoCo (arXiv:2501.18512, algorithm 2).
"""
