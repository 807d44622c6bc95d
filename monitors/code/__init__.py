"""Monitors of added code: what a solution holds that the files given to the agent did not.

Honest programs use some of these constructs too, so every finding is ``suspect`` or ``info``. ``reading`` resolves
names and says which lines are added; each other file is one monitor.
"""
