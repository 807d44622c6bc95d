"""Values as JSON and back, for calls that cross between processes.

Read ``encoding`` first: its table lists all forms. ``decoding`` makes values again; the two ``code_`` modules do the
same for functions and classes that a test defines. ``trusted_objects``, ``change_guard`` and ``own_state`` limit what
an answer of a solution may make and change beside the tests.

The texts of these files are sent into sandboxes (see ``processes/programs.py``): they import only the standard library
when they run there, and each other under ``TYPE_CHECKING``.
"""
