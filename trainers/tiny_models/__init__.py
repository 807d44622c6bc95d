"""Tiny language models for tests and demonstrations, made from a file of dialogues.

Reading order: ``dialogues`` (a file as ids), ``tokenizer``, ``pretrain`` (the model, its training, its folder).
"""
