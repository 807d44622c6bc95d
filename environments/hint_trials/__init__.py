"""Hint trials: episodes of a run are continued from before an error turn, with its hint and without.

Reading order: ``fork_points`` (where hints are tried), ``hint_candidates`` (further texts), ``trials`` (the record of a
continuation), ``continuations`` (how one is played), ``measure`` (all of them), ``report`` (what they show);
``hint_writer`` has a model write candidates.
"""
