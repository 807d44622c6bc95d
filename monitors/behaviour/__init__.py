"""Monitors of the transcript: what the agent did, whether or not it is in what was graded.

A look at something is ``attempted``; it ``succeeded`` when the call answered, and is ``integrated`` when words of the
answer that the agent could not have from the task are in the added code. ``evidence`` does this for all of them.
"""
