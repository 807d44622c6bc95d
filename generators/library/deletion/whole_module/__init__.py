"""Deletion of a whole module: ``module_deletion`` is the generator, ``module_statement`` writes the text."""
