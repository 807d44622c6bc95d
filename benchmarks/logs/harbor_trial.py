"""A Harbor trial with its ATIF trajectory, and a second trajectory with a sub-agent, written by Harbor's own classes.

    uv venv --python 3.12 TOOL && uv pip install --python TOOL/bin/python harbor==0.25.0
    TOOL/bin/python benchmarks/logs/harbor_trial.py SESSIONS OUT

SESSIONS is what ``claude_code.py`` wrote. ``trial/agent/trajectory.json`` is what Harbor's agent ``claude-code`` makes
of that session; ``trial/result.json`` is a ``TrialResult``. ``delegation.json`` is a ``Trajectory`` of ATIF 1.8.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

from harbor.agents.installed.claude_code import ClaudeCode
from harbor.models.task.id import LocalTaskId
from harbor.models.trajectories import (
    Agent,
    Observation,
    ObservationResult,
    Step,
    SubagentTrajectoryRef,
    ToolCall,
    Trajectory,
)
from harbor.models.trial.config import TaskConfig, TrialConfig
from harbor.models.trial.result import AgentInfo, TrialResult
from harbor.models.verifier.result import VerifierResult


def converted(sessions: Path) -> Trajectory:
    """Return the trajectory that Harbor's agent makes of a session of Claude Code."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(sessions, Path(folder, "sessions", "projects", "notes"))
        trajectory = ClaudeCode(logs_dir=Path(folder), model_name="anthropic/claude-scripted-1").convert_trajectory(
            Path(folder)
        )
        assert trajectory is not None
        return trajectory


def step(number: int, source: str, message: str, *calls: tuple[str, str, dict[str, str], str], **more: object) -> Step:
    made = [
        ToolCall(tool_call_id=call_id, function_name=name, arguments=arguments) for call_id, name, arguments, _ in calls
    ]
    results = [ObservationResult(source_call_id=call_id, content=content) for call_id, _, _, content in calls]
    observation = Observation(results=results) if results else None
    return Step(
        step_id=number, source=source, message=message, tool_calls=made or None, observation=observation, **more
    )


def delegation() -> Trajectory:
    """Return a trajectory whose agent delegates to a sub-agent, which fails twice and recovers once."""
    shell = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
    tools = [{"type": "function", "function": {"name": "shell", "description": "Run a command.", "parameters": shell}}]
    sub = Trajectory(
        session_id="run-1",
        trajectory_id="counter",
        agent=Agent(name="counter", version="1", model_name="scripted", tool_definitions=tools),
        steps=[
            step(1, "user", "Count the lines of notes.txt."),
            step(2, "agent", "", ("c1", "shell", {"cmd": "wc -l notes.txt"}, "Missing required argument: command")),
            step(
                3,
                "agent",
                "",
                (
                    "c2",
                    "shell",
                    {"command": "wc -l missing.txt"},
                    "wc: missing.txt: No such file or directory\n\nexit code: 1",
                ),
            ),
            step(4, "agent", "", ("c3", "shell", {"command": "wc -l notes.txt"}, "2 notes.txt\n\nexit code: 0")),
            step(5, "agent", "It has 2 lines."),
        ],
    )
    reference = SubagentTrajectoryRef(trajectory_id="counter")
    call = ToolCall(tool_call_id="d1", function_name="delegate", arguments={"task": "Count the lines of notes.txt."})
    result = ObservationResult(source_call_id="d1", content="It has 2 lines.", subagent_trajectory_ref=[reference])
    return Trajectory(
        session_id="run-1",
        trajectory_id="root",
        agent=Agent(name="planner", version="1", model_name="scripted"),
        steps=[
            step(1, "system", "You delegate."),
            step(2, "user", "How many lines has notes.txt?"),
            Step(
                step_id=3,
                source="agent",
                message="I delegate.",
                tool_calls=[call],
                observation=Observation(results=[result]),
            ),
            step(4, "user", "Are you sure?"),
            step(5, "agent", "notes.txt has 2 lines."),
        ],
        subagent_trajectories=[sub],
    )


def main(sessions: Path, out: Path) -> None:
    trial = out / "trial"
    (trial / "agent").mkdir(parents=True, exist_ok=True)
    (trial / "agent" / "trajectory.json").write_text(json.dumps(converted(sessions).to_json_dict(), indent=1) + "\n")
    task = TaskConfig(path=Path("tasks/notes"))
    result = TrialResult(
        task_name="notes",
        trial_name="notes__1",
        trial_uri="file:///trials/notes__1",
        task_id=LocalTaskId(path=Path("tasks/notes")),
        task_checksum="0" * 64,
        config=TrialConfig(task=task, trial_name="notes__1"),
        agent_info=AgentInfo(name="claude-code", version="2.1.197"),
        verifier_result=VerifierResult(rewards={"reward": 1.0}),
    )
    (trial / "result.json").write_text(result.model_dump_json(indent=1) + "\n")
    (out / "delegation.json").write_text(json.dumps(delegation().to_json_dict(), indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
