"""Episodes played through the client, as token ids.

Read ``rollout.py`` for one episode, ``session_pool.py`` for many at the same time, ``batcher.py`` for how their turns
are sampled together. ``local_server.py`` starts a server for one run; ``dataset_rows.py`` writes tasks as a data set.
"""
