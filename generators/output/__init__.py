"""Writing task sets: ``publish`` (the folder and its journal), ``card`` (README.md), ``pack_set`` (archives of
Snapshots), ``write_clean_set`` (the tasks that passed an audit), ``hub/`` (repositories of the Hub).
"""
