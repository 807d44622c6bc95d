"""Supervised fine-tuning on solved episodes."""
