"""Finding error turns in a transcript."""
