"""Observation: the calls that failing tests make, one of which the statement shows as a reproduction.

Reading order: ``failing_calls`` (the stage), ``sessions`` (from recorded calls to lines that a user can type),
``session_runs`` (executes these), and what runs inside the sandbox: ``literal_forms``, ``public_names`` and
``call_tracer`` beside the tests, ``session_runner`` for the lines.
"""
