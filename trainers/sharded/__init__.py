"""Weights divided over processes: FSDP2 and HSDP on models that transformers shards while it loads them.

``layout`` decides the mesh, ``access`` reads hidden states and whole weights, ``training`` is the part of a trainer.
"""
