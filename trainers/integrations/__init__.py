"""Etude in training loops of others: TRL's ``environment_factory`` and OpenEnv's harness. Import the one you use."""
