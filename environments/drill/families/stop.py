"""Stop when done: each call does a piece of work that cannot be undone, and one too many spoils the result."""

from __future__ import annotations

from ....errors import ToolError
from ..exercise import Deal, Drill, DrillTool, State, Steps, effect, text_argument
from ..words import Noun


def make(deal: Deal) -> Drill:
    """Load up to ``2 + level`` boxes until it is enough; from level 3 on a load does not report the total."""
    noun = deal.nouns(1)[0]
    count = int(deal.rng.random() * (3 + deal.level))
    weights = [5 + int(deal.rng.random() * 60) for _ in range(count + 12)]
    start = 1 + int(deal.rng.random() * 50)
    truck = f"T-{10_000 + deal.number('truck') % 90_000}"
    # Enough is reached by the count-th piece and not by the one before.
    spare = weights[count - 1] if count else start
    enough = start + sum(weights[:count]) - int(deal.rng.random() * spare)
    steps: Steps = [("weigh_truck", {}), *[("load_next", {})] * count, ("close_truck", {})]
    return Drill(
        statement=f"Load one {noun.word} box after the other on truck {truck} until the weight on it is {enough} kg or "
        "more. Then load no more, close it, and submit the seal that this gives you. It may be heavy enough already.",
        tools=deal.shuffled([_loader(deal, noun, start, weights), _weigher(start, weights), _closer(deal)]),
        answer=deal.code("seal", count),
        solution=lambda: steps,
        effects={"closed with": str(count)},
        features={"loads_at_most": 2 + deal.level},
    )


def _loader(deal: Deal, noun: Noun, start: int, weights: list[int]) -> DrillTool:
    def run(state: State, arguments: dict[str, str]) -> str:
        number = state.get("loaded", 0)
        if "effects" in state or number >= len(weights):
            raise ToolError("io_error", "the truck is closed" if "effects" in state else "no box is left")
        state["loaded"] = number + 1
        total = f"; on the truck: {start + sum(weights[: number + 1])} kg" if deal.level < 3 else ""
        return f"loaded {deal.id_of(noun, number)}, {weights[number]} kg{total}"

    return DrillTool("load_next", f"Loads the next {noun.word} box. It cannot be unloaded.", text_argument(), run)


def _weigher(start: int, weights: list[int]) -> DrillTool:
    def run(state: State, arguments: dict[str, str]) -> str:
        return f"{start + sum(weights[: state.get('loaded', 0)])} kg"

    return DrillTool("weigh_truck", "The weight on the truck now.", text_argument(), run)


def _closer(deal: Deal) -> DrillTool:
    def run(state: State, arguments: dict[str, str]) -> str:
        loaded = state.get("loaded", 0)
        effect(state, "closed with", str(loaded))
        return f"seal {deal.code('seal', loaded)}"

    return DrillTool("close_truck", "Closes the truck for good and gives the seal.", text_argument(), run)
