"""Packaging metadata: ``facts`` reads what a build would ship and declare, ``faults`` puts a mistake into it."""
