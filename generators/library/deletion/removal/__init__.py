"""Mode ``remove``: a definition goes with every name that refers to it, until no reference in the tree is left.

Reading order: ``source_file`` (one file with its names), ``name_index`` (all files, names resolved), ``closure`` (the
rules, and the removal as it grows), ``string_references`` (names in strings and annotations), ``file_edits`` (the
finished removal as file contents).
"""
