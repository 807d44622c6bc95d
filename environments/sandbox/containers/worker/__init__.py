"""The program inside a container: ``serve`` answers requests, ``command`` runs one command. Stdlib only, Python 3.8."""
