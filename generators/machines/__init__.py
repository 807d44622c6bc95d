"""Where the work of ``etude generate`` is done: in a pool of processes on this machine, or on the nodes of Ray.

Reading order: ``records`` (what travels, and what a place of work offers), ``steps`` (the work itself, which runs in
any process), ``checking`` (the order of the work), ``processes`` (this machine), ``ray_cluster``, ``ray_connection``.
"""
