"""The operations of a server by method and path."""

from __future__ import annotations

from ...models import Episode, PublicTask
from . import bodies, examples
from .answers import AS_CALL, BROKEN, INVALID, NO_SESSION, NO_SPLIT, TOOL_TEXT
from .openenv_operations import OPENENV
from .operation import HTML, TEXT, Answer, Operation

TAGS = {
    "Server": "Endpoints, probes and metrics.",
    "Tasks": "Public rows of the tasks. Nothing here shows a solution or a hidden test.",
    "Episodes": "Episodes, for holders of their sessions' tokens.",
    "REST session": (
        "An episode over plain HTTP, in the shape of a NeMo Gym resources server: seed a session from a row of "
        "`/rows`, call tools with its cookie, and grade it. Whatever is posted with the cookie of a session not "
        "yet graded is a turn, on any path."
    ),
    "OpenEnv": (
        "OpenEnv's routes. Each request to `/reset` and `/step` has a session of its own, so episodes are played over "
        "the WebSocket `/ws`, which OpenAPI cannot describe: frames "
        '`{"type": "reset" | "step" | "state" | "close", "data": {...}}`, with the bodies of `/reset` and `/step`. '
        "`/mcp` is a WebSocket too."
    ),
    "Viewer": "Pages for people.",
}

_PAGE = {"split": "train", "offset": 0, "limit": 2}

OPERATIONS: dict[str, Operation] = {
    **OPENENV,
    "GET /": Operation(
        "show_index",
        "Server",
        "Name the endpoints of this server",
        {200: Answer("The endpoints.", bodies.ServerIndex, examples.INDEX)},
    ),
    "GET /healthz": Operation(
        "check_process",
        "Server",
        "Answer while the process runs",
        {200: Answer("It runs.", bodies.Alive, {"status": "ok"})},
        probe=True,
    ),
    "GET /readyz": Operation(
        "check_readiness",
        "Server",
        "Answer 200 while new episodes can start",
        {
            200: Answer("A new episode can start.", bodies.Readiness, examples.READY),
            503: Answer("No tasks, every session is in use, or stopping.", bodies.Readiness, examples.FULL),
        },
        probe=True,
    ),
    "GET /metrics": Operation(
        "read_metrics",
        "Server",
        "Return metrics in Prometheus' text format",
        {200: Answer("The metrics.", None, examples.METRICS, (TEXT,))},
    ),
    "GET /web": Operation(
        "show_page", "Viewer", "Show a page for people", {200: Answer("The page.", None, media_types=(HTML,))}
    ),
    "GET /view": Operation(
        "show_viewer",
        "Viewer",
        "Show the viewer, which asks for tokens of sessions",
        {200: Answer("The page.", None, media_types=(HTML,))},
    ),
    "GET /view/data/index": Operation(
        "list_viewed_episodes",
        "Viewer",
        "List the episodes of the sessions whose tokens are sent",
        {200: Answer("The list.", bodies.ViewIndex, examples.VIEW_INDEX), 422: INVALID},
        parameters={"after": "4f53cda18c2baa0c"},
        tokens=True,
    ),
    "GET /view/data/episodes/{name}": Operation(
        "view_episode",
        "Viewer",
        "Return an episode as the viewer shows it",
        {
            200: Answer("The episode.", {"type": "object", "additionalProperties": True}),
            401: Answer("No episode has this id and one of these tokens.", bodies.Refusal, {"detail": "no episode"}),
            422: INVALID,
        },
        parameters={"name": "0123456789abcdef"},
        tokens=True,
    ),
    "GET /tasks": Operation(
        "list_tasks",
        "Tasks",
        "List the public rows of the tasks",
        {
            200: Answer("A page.", bodies.TaskPage, {"total": 2000, "tasks": [examples.TASK]}),
            404: NO_SPLIT,
            422: INVALID,
        },
        parameters=_PAGE,
    ),
    "GET /rows": Operation(
        "list_rows",
        "Tasks",
        "List the same tasks as rows for /seed_session",
        {
            200: Answer("A page.", bodies.RowPage, {"total": 2000, "rows": [examples.ROW]}),
            404: NO_SPLIT,
            422: INVALID,
            503: BROKEN,
        },
        parameters=_PAGE,
    ),
    "GET /tasks/{task_id}": Operation(
        "get_task",
        "Tasks",
        "Return one task's public row",
        {
            200: Answer("The row.", PublicTask, examples.TASK),
            404: Answer("No such task.", bodies.Refusal, {"detail": "unknown task 'x'"}),
            422: INVALID,
        },
        parameters={"task_id": examples.TASK_ID},
    ),
    "GET /episodes/{episode_id}": Operation(
        "get_episode",
        "Episodes",
        "Return an episode to the holder of its token",
        {
            200: Answer("The episode, running or ended, without its seed and its grade.", Episode, examples.EPISODE),
            401: Answer(
                "No episode has this id and token; or the server's key is missing.",
                bodies.Refusal,
                {"detail": "no episode with this id and token"},
            ),
            422: INVALID,
        },
        parameters={"episode_id": examples.EPISODE_ID},
        token=True,
    ),
    "POST /seed_session": Operation(
        "seed_session",
        "REST session",
        "Start the episode of a row and set the session's cookie",
        {
            200: Answer("The episode has started; the cookie is the session's.", bodies.Seeded, examples.SEEDED),
            409: AS_CALL,
            503: BROKEN,
        },
        body=bodies.SeedBody,
        bodies={"row": examples.ROW, "task": {"task_id": examples.TASK_ID}, "place": {"split": "train", "index": 0}},
    ),
    "POST /verify": Operation(
        "verify_session",
        "REST session",
        "End the session's episode and grade it",
        {200: Answer("The grade; the same each time.", bodies.Verified, examples.GRADE), 409: AS_CALL, 503: BROKEN},
        body=bodies.VerifyBody,
        bodies={"rollout": {**examples.ROW, "response": examples.ROLLOUT}},
        cookie=True,
    ),
    "PATCH /session": Operation(
        "call_tool_by_body",
        "REST session",
        "Call the tool of the session that the body names",
        {200: TOOL_TEXT, 409: NO_SESSION, 503: BROKEN},
        body=bodies.CallBody,
        bodies={"call": {"name": "submit", "arguments": {"answer": "58 kg"}}},
        cookie=True,
    ),
    "POST /{tool}": Operation(
        "call_tool",
        "REST session",
        "Call a tool of the session; any name is a turn",
        {
            200: TOOL_TEXT,
            405: Answer("The path has other methods.", bodies.Refusal, {"detail": "Method Not Allowed"}),
            409: NO_SESSION,
            503: BROKEN,
        },
        description="The body has the tool's arguments; what is no JSON object is a turn too.",
        body={},
        bodies={"arguments": {"answer": "58 kg"}},
        body_required=False,
        parameters={"tool": "submit"},
        cookie=True,
    ),
}
EXTRA_MODELS = (bodies.Split, bodies.Refusal)
"""Models that the table names by reference."""
