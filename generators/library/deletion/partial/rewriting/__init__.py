"""Exact changes of code: statements that leave their blocks, names that get one value, what is left without a use.

``blocks`` deletes and unwraps statements, ``constant_values`` evaluates conditions, ``fixed_name`` rewrites a file for
one value of a name, ``line_edits`` compares versions and finds dead code, ``conditions`` says when code runs.
"""
