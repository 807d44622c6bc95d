"""``etude init``: a new plug-in package that runs at once.

``init_command`` holds the command, ``package_files`` fills in the texts of ``templates/``.
"""
