"""``results.jsonl`` of verifiers 0.3.1, written by its ``ToolEnv`` against the scripted endpoint.

uv venv TOOL && uv pip install --python TOOL/bin/python verifiers==0.3.1
TOOL/bin/python benchmarks/logs/verifiers_results.py OUT
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

import verifiers as vf
from chat_endpoint import FINAL, QUESTION, serving
from datasets import Dataset
from note_tools import read_text, shell


async def has_answer(completion: list, answer: str) -> float:
    return float(answer in str(completion[-1].content))


async def play(url: str, out: Path) -> None:
    rows = Dataset.from_list([{"question": QUESTION, "answer": FINAL}])
    rubric = vf.Rubric(funcs=[has_answer])
    env = vf.ToolEnv(
        env_id="notes",
        dataset=rows,
        eval_dataset=rows,
        tools=[shell, read_text],
        max_turns=10,
        rubric=rubric,
        system_prompt="Answer with the tools.",
    )
    config = vf.ClientConfig(api_base_url=url, api_key_var="SCRIPTED_KEY")
    await env.evaluate(
        client=config, model="scripted", num_examples=1, rollouts_per_example=1, results_path=out, save_results=True
    )


def main(out: Path) -> None:
    os.environ["SCRIPTED_KEY"] = "scripted"
    with tempfile.TemporaryDirectory() as folder, serving() as url:
        Path(folder, "notes.txt").write_text("one\ntwo\n")
        os.chdir(folder)
        asyncio.run(play(url, Path(folder, "results")))
        out.mkdir(parents=True, exist_ok=True)
        for name in ("results.jsonl", "metadata.json"):
            (out / name).write_bytes(Path(folder, "results", name).read_bytes())


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
