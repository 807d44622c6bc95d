"""Trace replay: preference pairs from stored episodes and external teachers.

At a turn of a stored episode, teachers see what the student saw. Where their answers agree on something better, or
execution proves it better, a preference pair is written; the replay channel trains on the pairs. Cursor published
nothing of this kind; this channel combines published methods with our own. For a policy to which the chosen turns are
unlikely, the default losses are mostly cross-entropy on those turns; ``docs/channels.md`` has the measurement and the
control without the preference.

Reading order: ``turns/prefixes`` (the state before a turn), ``turns/action_equality``, ``external_models``,
``budget_ledger``, ``ask_policy``, ``turns/executor``, ``pairs``, ``asked_turn``, ``in_flight``, ``run`` (the command),
``channel/encoding``, ``channel/loss``.
"""
