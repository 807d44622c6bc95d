"""Plan of a training step: operations, memory, bytes and time, from a model's shapes and stated assumptions.

Read ``model_shapes.py`` for what is counted, ``mesh.py`` for where parameters are, ``step.py`` for the formulas,
``traced_step.py`` for activations.
"""
