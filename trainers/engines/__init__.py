"""Etude's turn-local distillation in other training engines; import only the module of the engine that you use.

| module | engine | what its configuration names |
|---|---|---|
| ``verl_plugin``, ``verl_loss`` | verl | ``distillation.distillation_loss.loss_mode=etude_turn_local`` |
| ``skyrl_loss`` | SkyRL | ``trainer.algorithm.policy_loss_type=etude_turn_local`` |
| ``slime_loss`` | slime | ``--custom-loss-function-path etude.trainers.engines.slime_loss.turn_local`` |
| ``prime_rl_algorithm``, ``trace_references`` | prime-rl | ``algo.type = "grpo"``, after two lines in its table |
| ``forge_loss`` | TorchForge | the ``loss`` argument of ``TitanTrainer`` |

``turn_local`` is the loss that they share, ``site_scores`` what a teacher behind an inference server adds to a rollout.
``docs/engines.md`` says what was tested with which version.
"""
