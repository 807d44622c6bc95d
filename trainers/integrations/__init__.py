"""Etude in the training loops of others; import only the module that you use.

| module | connects |
|---|---|
| ``environment`` | TRL's ``environment_factory``: TRL's loop plays our episodes |
| ``together`` | TRL's ``GRPOTrainer``, which then runs the tools of a whole batch at the same time |
| ``harness`` | OpenEnv's harness interface (``ResourceSessionFactory``), as TRL's asynchronous GRPO uses it |
| ``async_grpo`` | the same interface for sessions that play whole episodes themselves (``TrainableSession``) |
| ``completions`` | a running vLLM server, as a sampler of token ids |

``sessions`` and ``episodes`` are what they share; ``tool_methods`` and ``traces`` serve one of them each. The folder
``packages/`` holds adapters that are distributions of their own: verifiers (and prime-rl), and NeMo Gym. Those in
``frameworks/`` are of at most 60 lines each; docs/frameworks.md has the table of all of them.
"""
