"""Runs of the same tests on several versions of the sources: ``forked_runs`` runs inside, ``version_runs`` outside."""
