"""Deletion of a part of what a function does: its error handling, a parameter, an option of a command line.

Reading order: ``exception_path``, ``parameter`` and ``cli_option`` are the generators, each with its statement;
``blocks`` takes statements out of their blocks, ``conditions`` says in words when code runs.
"""
