"""Supervised fine-tuning on solved episodes: ``rows`` selects and encodes them, ``trainer`` builds TRL's SFTTrainer."""
