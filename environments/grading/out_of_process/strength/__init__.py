"""Whether a record decides alone: what would satisfy it without being a solution.

``requirements`` counts calls and different answers, ``lookup_tables`` and ``guesses`` try two kinds of wrong solutions,
and ``mutant_answers`` measures which calls separate the task's own solution from versions of it with a mistake.
"""
