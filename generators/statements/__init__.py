"""Parts of a task statement that several families of generators share.

``behaviours`` turns test ids and interface items into lines of a statement; ``interface`` finds the items.
"""
