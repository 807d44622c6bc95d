"""The docker backend, which Podman shares."""
