"""The server: sessions of every environment over OpenEnv's socket, a stateful REST session, and read-only routes.

Reading order: ``application`` (what is served), ``serving`` (the process), ``sessions`` (one environment per session),
``guard`` (limits in front of every route), ``sources`` (tasks and sessions by the environment's name), ``routes/``
(read-only routes and the REST session). ``viewer/`` writes stored runs as one HTML page; ``openenv_client`` is a typed
client. OpenEnv starts ``app``.
"""
