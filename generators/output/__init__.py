"""Writing task sets: rows, card, archives."""
