"""Who plays: scripted agents, and models behind an endpoint."""
