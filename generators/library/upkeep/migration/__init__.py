"""Parts of ``migrate_dependency``: ``installed`` knows which names dependencies have, ``shims`` finds old branches."""
