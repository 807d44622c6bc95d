"""Rows of public data sets as tasks: SWE-bench and its relatives, each label measured again here.

Reading order: ``instance`` (the record that every format is read into), ``formats`` (the readers),
``specifications`` (their environments), ``revalidation`` (what the tests do before and after
the official solution), ``labels`` (the difference to the official labels), ``importing`` (the command).
"""
