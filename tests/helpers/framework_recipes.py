"""Recipes of docs/frameworks.md: their code, what they are said to print, and a way to run one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parent.parent
SERVER = "http://127.0.0.1:8000"
"""Address in the document, which is replaced by the address of the server of a test."""
HEADING = re.compile(r"### (.+)\n")
RECIPE = re.compile(
    r"^```(?P<language>python|bash|toml)\n(?P<code>.+?)^```\n\n```text\n(?P<output>.+?)^```$", re.M | re.S
)
POLICY = """
import sys

import httpx

sys.path.append("{tests}")


def policy(messages, tools):
    request = {{"model": "scripted", "messages": messages, "tools": tools}}
    answer = httpx.post("{url}/chat/completions", json=request, trust_env=False)
    return answer.json()["choices"][0]["message"]


def text_policy(messages, tools):
    message = policy(messages, tools)
    calls = [call["function"] for call in message.get("tool_calls", [])]
    tagged = ['<tool_call>{{"name": "%s", "arguments": %s}}</tool_call>' % tuple(call.values()) for call in calls]
    return "".join([message["content"], *tagged])


"""
CHAT = """
from helpers.letter_chat import LetterChat

chat = LetterChat(policy)
"""
MODEL = """
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.model._call_tools import parse_tool_call


def outputs(messages, tools, choice, config):
    offered = [dict(type="function", function=tool.model_dump(exclude_none=True)) for tool in tools]
    message = policy([dict(role=one.role, content=one.text) for one in messages], offered)
    output = ModelOutput.from_content("scripted", message["content"])
    output.usage = ModelUsage()  # else the mock downloads a tokenizer to count
    output.choices[0].message.tool_calls = [
        parse_tool_call(call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in message.get("tool_calls", [])
    ]
    return output


model = get_model("mockllm/model", custom_outputs=outputs)
"""


TRAINER = "from helpers.trl_recipe import args, model\n"
PRELUDES = {"inspect_ai": MODEL, "TRL": TRAINER, **dict.fromkeys(["verl", "slime", "AReaL", "atropos", "rLLM"], CHAT)}
"""What recipes take from their reader besides ``policy``, by the name of the framework."""


class Recipe(NamedTuple):
    """Code, and the output that is quoted below it."""

    code: str
    output: str

    def and_then(self, other: Recipe) -> Recipe:
        """Return the recipe that goes on with another."""
        return Recipe(self.code + "\n" + other.code, self.output + other.output)


def recipes(document: Path) -> dict[str, Recipe]:
    """Return the first recipe below each heading: it needs Etude, and the packages of a test run."""
    return {name: found[0] for name, found in _sections(document).items()}


def with_package(document: Path) -> dict[str, Recipe]:
    """Return the recipes that go on with a framework's own package, by the name of the framework."""
    return {name: found[0].and_then(found[1]) for name, found in _sections(document).items() if len(found) > 1}


def _sections(document: Path) -> dict[str, list[Recipe]]:
    sections = {}
    for section in re.split(r"^(?=##+ )", document.read_text("utf-8"), flags=re.M):
        heading = HEADING.match(section)
        found = [Recipe(match["code"], match["output"]) for match in RECIPE.finditer(section)]
        if heading and found:
            first = Recipe(PRELUDES.get(heading[1], "") + found[0].code, found[0].output)
            sections[heading[1]] = [first, *found[1:]]
    return sections


def run(code: str, server: str, policy: str, folder: Path, python: Path | str = sys.executable) -> str:
    """Run a recipe as a script in ``folder``, with a function ``policy``, and return what it prints."""
    script = folder / "recipe.py"
    script.write_text(POLICY.format(url=policy, tests=TESTS) + code.replace(SERVER, server), "utf-8")
    done = subprocess.run([python, script], cwd=folder, env=_environment(python), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


def run_commands(code: str, server: str, policy: str, folder: Path, programs: Path, **variables: str) -> str:
    """Run a recipe of commands in ``folder``, with the programs of an environment first, and return what it prints."""
    settings = {"MODEL": "scripted", "MODEL_URL": policy, "MODEL_KEY": "none", "HOME": str(folder), **variables}
    path = f"{programs}:{os.environ['PATH']}"
    environment = {**_environment(programs / "python"), "PATH": path, **settings}
    typed = ["bash", "-euo", "pipefail", "-c", code.replace(SERVER, server)]
    done = subprocess.run(typed, cwd=folder, env=environment, capture_output=True, text=True)
    logs = "".join(f"\n{log.name}:\n{log.read_text('utf-8')[-3000:]}" for log in folder.rglob("*.log"))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:] + logs
    return done.stdout


def _environment(python: Path | str) -> Mapping[str, str]:
    if python == sys.executable:
        return os.environ
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
