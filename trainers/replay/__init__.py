"""Trace-replay DPO: external teachers see what the student saw at a turn of a stored episode, and where they agree on
something better, a preference pair arises. Cursor published nothing of the kind; it is an addition of others and ours.
"""
