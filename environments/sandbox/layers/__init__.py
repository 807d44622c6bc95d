"""What a workspace is made of, and what changed in it."""
