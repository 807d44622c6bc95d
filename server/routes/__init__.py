"""Routes beside OpenEnv's own.

- ``tasks``: the index, public rows and episodes.
- ``rest`` (routes), ``rest_session`` (the session), ``responses`` (a host's transcript): the stateful REST session.
"""
