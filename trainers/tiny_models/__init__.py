"""Small language models made from nothing on a CPU: enough to see a training run work, end to end."""
