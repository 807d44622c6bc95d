"""Reading transcripts: calls, results, status lines."""
