"""The escape suite: attempts to get out of a sandbox, each made without one first.

An attempt that does not work in a plain subprocess proves nothing about a sandbox. ``inside/`` holds what a command
tries on its own, ``outside`` what needs the server's part (its collector, a second sandbox), ``host`` what there is to
reach, ``naive`` the subprocess for comparison, and ``run`` the verdicts. No attempt leaves this machine or changes a
setting of it: what could be written is opened for writing, or written back as it was.
"""
