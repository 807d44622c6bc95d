"""Statements in the words of a language model, for ``etude generate --rewrite``.

Reading order: ``rewording_request`` (what the model reads and answers), ``statement_parts`` (what a statement consists
of), ``same_facts`` (what both texts must share), ``statement_check`` (V7 and V4 again), ``reworded_rows`` (the set).
"""
