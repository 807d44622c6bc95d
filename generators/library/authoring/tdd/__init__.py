"""Parts of the generator ``tdd_step``.

``schedule`` orders the tests of a feature, ``reduction`` cuts the feature down to what some of them run, ``given_test``
says what the workspace shows of the next one.
"""
