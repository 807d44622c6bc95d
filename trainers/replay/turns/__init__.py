"""A turn of a stored episode: the state before it, its action compared with others, and the action's executed value."""
