"""Trees of a workspace: the lower tree and the writable layer, which is reset, saved, restored and compared."""
