"""Sandbox backends that run under the keeper."""
