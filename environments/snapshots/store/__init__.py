"""Snapshots on disk: cache, archives, patches, workspaces."""
