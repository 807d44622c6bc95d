"""Adapters of at most 60 lines each; import only the module that you use. docs/frameworks.md has a recipe for each.

| module | connects |
|---|---|
| ``gymnasium_environment`` | Gymnasium |
| ``inspect_task`` | inspect_ai: task, solver and scorer |
| ``skyrl_environment`` | SkyRL-gym |
| ``token_records`` | rollouts as records of verl, slime and AReaL |
| ``turn_records`` | rollouts as records of atropos and rLLM, which reward turns |

An adapter owns its episode: an error closes the session. An episode without a valid score is dropped and never counts
as 0. ``turns`` is what they share; only the first three import a framework, and none imports torch.
"""
