"""Distillation at error turns: the policy with a hint teaches the policy without it.

Read ``distill_sites.py`` for where it acts, ``distiller.py`` for the loss, ``divergence.py`` for the formula at one
token, ``hidden_states.py`` for how teacher and student are evaluated, ``teachers.py`` for whose weights teach.
"""
