"""Hint trials: episodes of a run are continued from before an error turn, with its hint and without.

Reading order: ``fork_points`` (where hints are tried), ``hint_candidates`` (further texts to try), ``hint_policy``
(which one is tried), ``trials`` (the record of a continuation), ``continuations`` (plays one), ``measure`` (plays all),
``report`` (the effect of each hint). ``hint_writer`` lets a model write candidates; ``observed`` counts what happened
after the errors of a run, without any continuation. ``forks`` continues one episode from any turn, for people who
compare the two.
"""
