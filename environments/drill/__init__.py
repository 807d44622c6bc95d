"""The drill environment. Read ``exercise`` first, then one of ``families``, ``tasks`` and ``session``."""
