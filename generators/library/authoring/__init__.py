"""Authoring: the agent writes tests or answers a question, and something else than hidden tests grades it."""
