"""Sources: from a name (``pypi:``, ``git+``, a folder, an archive) to a tree of files. Start with ``source``."""
