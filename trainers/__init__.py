"""The reference trainer and its parts. Reading order, from the recipe to the loss:

1. ``recipe/recipe.py``: the keys of a recipe; ``recipe/load.py`` reads and checks one.
2. ``run/train.py``: ``etude train`` checks, builds and runs it (``run/builder.py``, ``run/loop.py``).
3. ``rollouts/rollout.py``: one episode as token ids; ``rollouts/session_pool.py`` plays many at the same time.
4. ``chat/chat_policy.py``: messages to ids and back, through the model's chat template.
5. ``grpo/trainer.py``: its docstring draws the calls of one step; ``grpo/scored_batch.py`` is the record between them.
6. ``distillation/distill_sites.py``, then ``distillation/distiller.py``: from error turns to the distillation loss.
7. ``replay/channel/loss.py``: preference pairs from external teachers, the third channel.
8. ``muon/optimizer.py``: Muon at natural granularity, sharded; ``muon/divide.py`` finds its matrices.
9. ``sharded/access.py``: models whose weights FSDP2 divides; ``sharded/training.py`` is a trainer's part for them;
   ``adapters.py``: low-rank adapters.

``sft/`` trains on stored episodes instead, ``asynchronous/`` while another process plays, ``tiny_models/`` makes models
for tests and demos, ``integrations/`` connects other frameworks, ``engines/`` has the distillation loss for other
trainers, ``diloco/`` exchanges parameters between distant workers, ``report/`` writes the page of a run,
``distributed.py`` has the collective calls.
Nothing here imports environments, generators or the server: the trainer meets them through ``etude.client`` only.
"""
