"""Distillation at error turns."""
