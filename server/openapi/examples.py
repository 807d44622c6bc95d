"""Examples of requests and answers; a test checks them against the schemas."""

from __future__ import annotations

from typing import Any

PROMPT = "What is the weight of the machine MCH-23407? Change nothing. Submit the weight exactly as it is reported."
TASK_ID = "drill-choose-0"
EPISODE_ID = "1c45ae39d43444a6b487b6e4cc0d64b9"
TOKEN = "5d41402abc4b2a76b9719d911017c592"
FEATURES: dict[str, Any] = {"family": "choose", "level": 1, "tools": 5, "distractors": 4}
TASK: dict[str, Any] = {
    "task_id": TASK_ID,
    "environment": "drill",
    "repo": "",
    "problem_statement": PROMPT,
    "interface": [],
    "features": FEATURES,
    "split": "train",
    "licence": "Apache-2.0",
}
_PARAMETERS = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": []}
TOOL = {"type": "function", "function": {"name": "submit", "description": "End it.", "parameters": _PARAMETERS}}
_ROW_TOOL = {"type": "function", **TOOL["function"], "strict": False}  # type: ignore[dict-item]
_REQUEST = {"input": [{"role": "user", "content": PROMPT}], "tools": [_ROW_TOOL]}
ROW: dict[str, Any] = {
    "responses_create_params": _REQUEST,
    "agent_ref": {"type": "responses_api_agents", "name": "etude_simple_agent"},
    "task_id": TASK_ID,
    "key": "5f4b5d1a309dc755aa1bb9df9ba5a79f",
    "repo": "",
    "licence": "Apache-2.0",
    "features": FEATURES,
}
ROLLOUT: dict[str, Any] = {
    "output": [
        {"type": "function_call", "call_id": "c1", "name": "submit", "arguments": '{"answer": "58 kg"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "ok\nsubmitted"},
    ]
}
COMPONENTS = {"answer": 1.0, "effects": 1.0, "no_confirmed_finding": 1.0}
GRADE: dict[str, Any] = {
    **COMPONENTS,
    "reward": 1.0,
    "reward_components": COMPONENTS,
    "passed_fractions": {},
    "error_turns": [],
    "n_error_turns": 0,
    "hints": "",
    "n_findings": 0,
    "assurance": "in_process",
    "findings": [],
    "end": "submit",
    "sandbox": None,
    "task_id": TASK_ID,
    "episode_id": EPISODE_ID,
    "responses_create_params": _REQUEST,
    "response": ROLLOUT,
}
SEEDED = {"episode_id": EPISODE_ID, "task_id": TASK_ID, "workdir": None, "prompt": PROMPT, "tools": [TOOL]}
RESET = {"observation": {"prompt": PROMPT, "tools": [TOOL], "messages": []}, "reward": 0.0, "done": False}
STEP = {
    "observation": {"messages": [{"role": "tool", "tool_call_id": "c1", "name": "submit", "content": "ok\nsubmitted"}]},
    "reward": 1.0,
    "done": True,
}
CALL = {"id": "c1", "name": "submit", "arguments": {"answer": "58 kg"}}
NO_STATE: dict[str, Any] = {
    "episode_id": None,
    "step_count": 0,
    "task_id": None,
    "token": None,
    "error_turns": [],
    "findings": [],
    "reward": None,
    "sandbox": None,
    "fork": None,
    "injected": [],
    "tools": None,
    "end": None,
}
EPISODE: dict[str, Any] = {
    "schema_version": 1,
    "episode_id": EPISODE_ID,
    "task_id": TASK_ID,
    "prompt": PROMPT,
    "tools": [TOOL],
    "files": [],
    "turns": [{"action": {"tool_calls": [CALL]}, "messages": STEP["observation"]["messages"], "seconds": 0.002}],  # type: ignore[index]
    "error_turns": [],
    "findings": [],
    "reward": {"value": 1.0, "components": COMPONENTS, "fractions": {}, "assurance": "in_process", "valid": True},
    "diff": [],
    "end": "submit",
    "sandbox": None,
    "fork": None,
    "injected": [],
    "seconds": 0.01,
}
INDEX = {
    "name": "etude",
    "about": "Practice tasks for coding agents, served over OpenEnv.",
    "play": {"WS /ws": "OpenEnv: reset, step and state"},
    "read": {"GET /tasks": "public rows of the tasks"},
    "tasks": {"train": 1000, "eval": 1000},
}
READY = {"ready": True, "reason": "", "tasks": 2000, "sessions": 3, "limit": 64}
FULL = {"ready": False, "reason": "every session is in use", "tasks": 2000, "sessions": 64, "limit": 64}
METADATA = {
    "name": "etude",
    "description": "Real repositories as practice pieces for coding agents.",
    "readme_content": None,
    "version": "0.1.0",
    "author": "Etude",
    "documentation_url": None,
}
SCHEMAS = {"action": {"type": "object"}, "observation": {"type": "object"}, "state": {"type": "object"}}
METRICS = "# HELP etude_sessions Open sessions.\n# TYPE etude_sessions gauge\netude_sessions 3.0\n"
RPC = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
RPC_ANSWER = {"jsonrpc": "2.0", "id": 1, "result": {"tools": []}}
VIEW_INDEX = {"cursor": "4f53cda18c2baa0c", "rows": []}
INVALID = {"type": "int_parsing", "loc": ["query", "offset"], "msg": "Input should be a valid integer", "input": "x"}
