"""Deletion: a function, a method or a class is taken out of a package, and the agent writes it again.

Reading order: ``function``, ``method`` and ``class_`` are the generators; ``family`` turns a target into a Candidate;
``target`` and ``bodies`` cut it out for mode ``stub``, ``cascade`` finds the helpers that nothing else needs;
``removal/`` takes the name out of the whole tree for mode ``remove``; ``documentation`` redacts, ``statement`` writes
the text. ``whole_module/`` deletes modules, ``partial/`` what a function does with a parameter, an option or an error.
"""
