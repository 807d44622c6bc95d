"""Asynchronous training: TRL's AsyncGRPOTrainer with the three channels, on episodes that a separate process plays.

| module | has |
|---|---|
| ``worker`` | the process that plays episodes against a vLLM server, and queues them for the trainer |
| ``trainer`` | the trainer: TRL's loss, distillation at error turns and replay-DPO |
| ``attention`` | attention of packed rows, and of the plain passes of the other channels |
| ``build`` | a run of ``etude train`` with ``asynchronous.episodes`` |
"""
