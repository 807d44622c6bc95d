"""Routes beside OpenEnv's own.

- ``tasks``: the index, public rows and episodes.
- ``view``: the viewer over this server's episodes, for holders of their tokens.
- ``rest`` (routes), ``rest_session`` (the session), ``responses`` (a host's transcript): the stateful REST session.
"""
