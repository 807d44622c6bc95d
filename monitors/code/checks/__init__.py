"""What does the added code let pass that should fail? Objects equal to everything, hidden failures, emptied data."""
