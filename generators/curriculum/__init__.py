"""Difficulty and curriculum: tasks that grow harder with the model that plays them.

Reading order: ``play_log.py`` reads the solve rates of runs, ``priors.py`` turns the features of tasks into numbers,
``item_response.py`` fits skills and difficulties, ``ladder.py`` lists the settings of each generator from easy to hard,
``plan.py`` chooses among them, ``selection.py`` is what ``etude generate`` calls. ``docs/curriculum.md`` has the
equations' meaning for users and the measurements.
"""
