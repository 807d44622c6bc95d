"""Learn from trials which hint helps where; what it would earn is estimated on held-out trials.

    python -m etude.research.hint_chooser RUN/hints ... [--out chooser.json] [--held-out 0.5] [--seed N] [--json]

RUN/hints is a folder that ``etude hints causal RUN --choose uniform`` wrote. README.md says how a recipe uses the file.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from etude.cli import console
from etude.errors import EtudeError
from etude.research.hint_chooser.off_policy import LogError, learn
from etude.research.hint_chooser.trial_logs import read_choices


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0 when a chooser was written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a folder with trials.jsonl")
    parser.add_argument("--out", type=Path, default=Path("chooser.json"), help="the file to write")
    parser.add_argument("--held-out", type=float, default=0.5, help="share of tasks to evaluate on")
    parser.add_argument("--epsilon", type=float, default=0.1, help="share of uniform draws")
    parser.add_argument("--temperature", type=float, default=0.1, help="how evenly the other draws are spread")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the split")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    options = parser.parse_args(arguments)
    try:
        learned = learn(
            read_choices(options.runs),
            held_out=options.held_out,
            epsilon=options.epsilon,
            temperature=options.temperature,
            seed=options.seed,
        )
        options.out.write_text(learned.chooser.model_dump_json(indent=2) + "\n", encoding="utf-8")
    except (EtudeError, LogError, OSError) as error:
        console.show_error(str(error))
        return 1
    policies = {name: console.plain(value) for name, value in learned.policies.items()}
    if options.json:
        print(json.dumps({"out": str(options.out), "rows": learned.rows, "policies": policies}))
    else:
        console.show_table([{"policy": name, **value.row()} for name, value in learned.policies.items()])
        print(f"learned from {learned.rows['train']} choices, evaluated on {learned.rows['held_out']}: {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
