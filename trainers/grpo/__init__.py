"""The GRPO trainer and its objectives."""
