"""Monitors of the frozen diff: which files the agent changed that could have changed the verdict.

Such changes are refused when a diff is collected, so they are evidence of an attempt and no more. What honest agents do
too (tests of their own, package metadata, links) is ``info``.
"""
