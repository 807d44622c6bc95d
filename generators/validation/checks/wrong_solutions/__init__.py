"""Wrong solutions, which a task must not reward.

``attempts`` runs them on the hidden tests, ``strength`` counts how many small mistakes these notice, and
``solution_mutants`` with ``partial_versions`` writes the wrong versions that a record of calls has to notice.
"""
