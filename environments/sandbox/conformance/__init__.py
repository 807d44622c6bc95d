"""The conformance suite that every sandbox backend must pass."""
