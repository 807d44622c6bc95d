"""Places in a module where a mistake can be, and what a programmer could have written there instead.

``module_code`` reads a module and makes byte-exact edits; ``literals``, ``lookalikes``, ``containers`` and
``special_methods`` know texts, names, empty containers and special methods.
"""
