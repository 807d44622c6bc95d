"""Deletion of a part of what a function does: its error handling, a parameter, an option of a command line.

Reading order: ``exception_path``, ``parameter`` and ``cli_option`` are the generators, each with its statement;
``error_checks``, ``parameters``, ``command_options`` and ``getopt_options`` find the code and take it out. They build
on ``rewriting/`` (exact changes of code), ``docstring_entries`` and ``calls_of_tests``.
"""
