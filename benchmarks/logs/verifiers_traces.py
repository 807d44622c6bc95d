"""``traces.jsonl`` of verifiers 0.4, written by its command ``vf-eval`` against the scripted endpoint.

    uv venv TOOL && uv pip install --python TOOL/bin/python verifiers==0.4.0
    TOOL/bin/python benchmarks/logs/verifiers_traces.py OUT

The taskset below is a package in a temporary folder; its tools are served by verifiers' own MCP server.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from chat_endpoint import FINAL, QUESTION, serving

CONFIG = """
model = "scripted"
push = false

[client]
base_url = "{url}"
api_key_var = "SCRIPTED_KEY"

[env.taskset]
id = "notes-taskset"

[env.agent]
harness = {{ id = "null" }}
runtime = {{ type = "subprocess" }}
"""
TASKSET = f"""
import verifiers.v1 as vf
from notes_taskset.tools import NotesToolset

class NotesData(vf.TaskData):
    answer: str

class NotesTask(vf.Task[NotesData]):
    @vf.reward(weight=1.0)
    async def has_answer(self, trace: vf.Trace) -> float:
        return float(self.data.answer in str(trace.nodes[-1].message.content))

class NotesConfig(vf.TasksetConfig):
    tools: vf.SharedToolsetConfig = vf.SharedToolsetConfig()

class NotesTaskset(vf.Taskset[NotesTask, NotesConfig]):
    @classmethod
    def toolsets(cls, config):
        return [NotesToolset(config.tools)]

    def load(self):
        return [NotesTask(NotesData(idx=0, name="notes-1", prompt={QUESTION!r}, answer={FINAL!r}), self.config.task)]

__all__ = ["NotesTaskset"]
"""
TOOLS = '''
import os

import verifiers.v1 as vf
import note_tools

os.chdir(FOLDER)

class NotesToolset(vf.Toolset[vf.SharedToolsetConfig]):
    TOOL_PREFIX = "notes"

    @vf.tool
    def shell(self, command: str) -> str:
        """Run a command."""
        return note_tools.shell(command)

    @vf.tool
    def read_text(self, path: str) -> str:
        """Read a file."""
        return note_tools.read_text(path)

if __name__ == "__main__":
    NotesToolset.run()
'''


def main(out: Path) -> None:
    here = Path(__file__).resolve().parent
    with tempfile.TemporaryDirectory() as name, serving("notes_") as url:
        folder = Path(name)
        package = folder / "packages" / "notes_taskset"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(TASKSET)
        (package / "tools.py").write_text(TOOLS.replace("FOLDER", repr(name)))
        (folder / "notes.txt").write_text("one\ntwo\n")
        (folder / "eval.toml").write_text(CONFIG.format(url=url))
        paths = f"{folder / 'packages'}:{here}"
        environment = {
            **os.environ,
            "PYTHONPATH": paths,
            "SCRIPTED_KEY": "scripted",
            "HF_HUB_OFFLINE": "1",
            "HOME": name,
        }
        command = [Path(sys.executable).with_name("vf-eval"), "@", folder / "eval.toml", "--no-rich", "-n", "1"]
        command += ["--output-dir", folder / "out"]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stdout[-3000:] + done.stderr[-3000:])
        (written,) = (folder / "out").glob("*/traces.jsonl")
        out.mkdir(parents=True, exist_ok=True)
        (out / "traces.jsonl").write_bytes(written.read_bytes())


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
