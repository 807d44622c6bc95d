"""Logs of Inspect, written by ``inspect_ai`` itself: its provider ``mockllm/model`` plays scripted answers.

    uv venv TOOL && uv pip install --python TOOL/bin/python inspect_ai
    TOOL/bin/python benchmarks/logs/inspect_logs.py OUT

Writes ``notes.eval`` and ``notes.json`` with one sample each. The tools are those of Inspect and one of this file; the
answers hold an unknown tool, arguments that are not JSON, arguments that do not fit, a file that does not exist, a
command that fails with exit code 1, and the same command done right.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from inspect_ai import Task, eval  # noqa: A004
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageAssistant, ModelOutput, ModelUsage, get_model
from inspect_ai.model._call_tools import parse_tool_call
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, system_message, use_tools
from inspect_ai.tool import Tool, tool
from inspect_ai.tool._tool_call import ToolCall


@tool
def shell() -> Tool:
    async def execute(command: str) -> str:
        """Run a command.

        Args:
            command: The command.
        """
        done = subprocess.run(command, shell=True, capture_output=True, text=True)  # noqa: ASYNC221
        return f"{done.stdout}{done.stderr}\nexit code: {done.returncode}"

    return execute


@tool
def read_text() -> Tool:
    async def execute(path: str) -> str:
        """Read a file.

        Args:
            path: The file.
        """
        return Path(path).read_text()

    return execute


def answer(text: str, *calls: ToolCall) -> ModelOutput:
    output = ModelOutput.from_content("mockllm/model", text, stop_reason="tool_calls" if calls else "stop")
    output.choices[0].message = ChatMessageAssistant(
        content=text, tool_calls=list(calls) or None, source="generate", model="mockllm/model"
    )
    output.usage = ModelUsage(
        input_tokens=1, output_tokens=1, total_tokens=2
    )  # else tokens are counted with a download
    return output


def call(number: int, name: str, problem: str | None = None, **arguments: Any) -> ToolCall:
    return ToolCall(id=f"call_{number}", function=name, arguments=arguments, parse_error=problem)


def answers() -> list[ModelOutput]:
    written = '{"command": "wc -l'  # parse_tool_call of Inspect says what is wrong with it
    broken = parse_tool_call("call_2", "shell", written, None).parse_error
    return [
        answer("I look for the notes.", call(1, "search_web", query="notes")),
        answer("", call(2, "shell", broken, command='{"command": "wc -l')),
        answer("", call(3, "shell", cmd="wc -l notes.txt")),
        answer("", call(4, "read_text", path="missing.txt")),
        answer("", call(5, "shell", command="grep -c two missing.txt")),
        answer("", call(6, "shell", command="wc -l notes.txt"), call(7, "read_text", path="notes.txt")),
        answer("notes.txt has 2 lines."),
    ]


def main(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "notes.txt").write_text("one\ntwo\n")
        for kind in ("eval", "json"):
            task = Task(
                name="notes",
                dataset=[Sample(id="notes-1", input="How many lines has notes.txt?", target="2 lines")],
                solver=[
                    system_message("Answer with the tools."),
                    use_tools(shell(), read_text()),
                    generate(tool_calls="loop"),
                ],
                scorer=includes(),
            )
            model = get_model("mockllm/model", custom_outputs=answers())
            import os

            os.chdir(folder)
            (log,) = eval(
                task, model=model, log_dir=f"{folder}/logs", log_format=kind, display="none", message_limit=30
            )
            if log.status != "success":
                raise SystemExit(f"the evaluation ended with {log.status}: {str(log.error)[:300]}")
            written = Path(log.location.removeprefix("file://"))
            (out / f"notes.{kind}").write_bytes(written.read_bytes())


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
