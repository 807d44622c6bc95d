"""prime-rl's GRPO with the turn-local loss beside it, as an algorithm of its orchestrator.

prime-rl names algorithms in a table, not by import path. Two lines at the end of its
``src/prime_rl/orchestrator/algo/__init__.py`` put this class in the place of ``algo.type = "grpo"``:

    from etude.trainers.engines.prime_rl_algorithm import TurnLocalGRPO
    ALGORITHM_CLASSES["grpo"] = TurnLocalGRPO

The advantages are those of prime-rl's own GRPO, on all turns. The teacher is the live policy with the hint, which
prime-rl serves anyway; see ``trace_references`` for what the trainer makes of it.
"""

from __future__ import annotations

import random
from typing import Any

from prime_rl.orchestrator.algo.base import iter_trainable_traces
from prime_rl.orchestrator.algo.grpo import GRPOAlgorithm

from .trace_references import add_references


class TurnLocalGRPO(GRPOAlgorithm):
    """GRPO on whole rollouts and self-distillation on their error turns."""

    coefficient: float = 1.0
    """Factor of the turn-local loss; set it in a subclass."""

    async def setup(self) -> None:
        """Build the renderer of hints with the policy's tokenizer."""
        from renderers import AutoRendererConfig
        from renderers.base import create_renderer, load_tokenizer

        await super().setup()
        self.renderer = create_renderer(load_tokenizer(self.policy_pool.model_name), AutoRendererConfig())

    async def score_episode(self, episode: Any) -> None:
        """Annotate the error turns of one episode. Raise ValueError for traces of another taskset."""
        await super().score_episode(episode)
        for _, trace in iter_trainable_traces([episode]):
            rng = random.Random(trace.id)
            await add_references(trace, self._hint_ids, self.policy_pool.score, coefficient=self.coefficient, rng=rng)

    def _hint_ids(self, role: str, text: str) -> list[int]:
        return message_ids(self.renderer, role, text)


def message_ids(renderer: Any, role: str, text: str) -> list[int]:
    """Return the ids that a message adds after another one. Raise ValueError when it changes the ids before it."""
    before = [{"role": "user", "content": "Say yes."}]
    ids = list(renderer.render_ids(before, add_generation_prompt=False))
    longer = list(renderer.render_ids([*before, {"role": role, "content": text}], add_generation_prompt=False))
    if longer[: len(ids)] != ids:
        raise ValueError(f"the renderer writes a {role} message and the one before it as one; use another renderer")
    return longer[len(ids) :]
