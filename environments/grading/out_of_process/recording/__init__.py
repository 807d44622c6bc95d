"""Making the record of a new task: ``record`` for the tests that have to pass, ``passing_tests`` for those that pass
already, ``observation`` for which tests run an examined function at all."""
