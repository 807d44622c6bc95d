"""Commands about episodes: ``serve``, ``run`` and ``report``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import console
from ..options import OPENAI, AgentName, ApiKeyEnv, EnvName, Jobs, Json, Sandbox, Url, asks_model, key_values, tasks_of
from ..progress import progress_bar

if TYPE_CHECKING:
    from ...environments.openenv import PenaltySettings
    from ...environments.runs.scores import Summary

JudgeUrl = Annotated[str, typer.Option(envvar="OPENAI_BASE_URL", help="Call the judge at this endpoint.")]


def serve(
    source: Annotated[
        Path | None,
        typer.Argument(metavar="[TASKS]", help="Serve these tasks: a folder, or hub:USER/NAME@REVISION."),
    ] = None,
    tasks: Annotated[Path | None, typer.Option(help="The same as TASKS; default: $ETUDE_TASKS.")] = None,
    host: Annotated[str, typer.Option(help="Listen on this address; 0.0.0.0 opens it to the network.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Listen on this port; 0 takes a free one.")] = 8000,
    sandbox: Sandbox = "auto",
    environment: EnvName = None,
    faults: Annotated[
        str | None, typer.Option(help="Make calls fail on purpose, such as rate=0.2,timeout,seed=7 or renamed@3.")
    ] = None,
    knob: Annotated[
        list[str] | None,
        typer.Option(help="Set KEY=VALUE: turns or tools; for drills families or level; repeatable."),
    ] = None,
    judge: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Let this model lower rewards that a monitor suspects too.")
    ] = None,
    judge_weight: Annotated[float, typer.Option(min=0, max=1, help="Share of a reward that the judge may take.")] = 0.5,
    base_url: JudgeUrl = OPENAI,
    api_key_env: ApiKeyEnv = "OPENAI_API_KEY",
    max_sessions: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", envvar="MAX_CONCURRENT_ENVS", help="Open N sessions at most; default: 64."),
    ] = None,
    client_sessions: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            envvar="ETUDE_CLIENT_SESSIONS",
            help="Open N at most for one address; default: no limit.",
        ),
    ] = None,
    executions: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            envvar="ETUDE_EXECUTIONS",
            help="Run N resets and tool calls at once; default: 8 for each core, at least 16.",
        ),
    ] = None,
    gradings: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", envvar="ETUDE_GRADINGS", help="Grade N episodes at once; default: one for each core."
        ),
    ] = None,
    client_requests: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            envvar="ETUDE_CLIENT_REQUESTS",
            help="Answer N requests and frames of one address in a second at most; default: no limit.",
        ),
    ] = None,
    client_connections: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            envvar="ETUDE_CLIENT_CONNECTIONS",
            help="Open N WebSockets of one address in a second at most; default: no limit.",
        ),
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Answer requests to this name too, or * for any; repeatable. Default: $ETUDE_ALLOWED_HOSTS, "
            "else localhost and addresses on a loopback --host, any name elsewhere.",
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="PATH|URL",
            envvar="ETUDE_STORE",
            help="Write graded episodes to this SQLite file or PostgreSQL URL, or none; default: ~/.local/state/etude.",
        ),
    ] = None,
    reconnect: Annotated[
        float,
        typer.Option(
            min=0,
            metavar="SECONDS",
            envvar="ETUDE_RECONNECT",
            help="Keep a session for its client after its connection was lost; 0 ends it at once.",
        ),
    ] = 60.0,
    workers: Annotated[
        int,
        typer.Option(
            min=0, max=1024, metavar="N", envvar="ETUDE_WORKERS", help="Play in N processes; default: in this process."
        ),
    ] = 0,
    replica: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", envvar="ETUDE_REPLICA", help="Name this server among several; its tokens begin with NAME."
        ),
    ] = None,
    drain: Annotated[
        float,
        typer.Option(
            min=0,
            metavar="SECONDS",
            envvar="ETUDE_DRAIN",
            help="Let episodes end for SECONDS after SIGTERM.",
        ),
    ] = 0.0,
    prepare: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            envvar="ETUDE_PREPARE",
            help="Make the workspaces of the first N tasks before /readyz answers 200.",
        ),
    ] = 0,
    log: Annotated[
        str, typer.Option(envvar="ETUDE_LOG", help="Log to stderr as text (problems alone) or json (every call).")
    ] = "text",
) -> None:
    """Serve tasks over OpenEnv until interrupted; every request needs the key in $ETUDE_API_KEY, if it is set."""
    if source is not None and tasks is not None:
        raise typer.BadParameter("TASKS is given too; give one of them", param_hint="--tasks")
    knobs = key_values(knob or [])
    from ...server.app import serve as serve_tasks

    code = serve_tasks(
        source or tasks,
        host=host,
        port=port,
        backend=sandbox,
        environment=environment,
        faults=faults,
        knobs=knobs,
        penalty=None if judge is None else _penalty(judge, judge_weight, base_url, api_key_env),
        limits={
            "sessions": max_sessions,
            "client_sessions": client_sessions,
            "executions": executions,
            "gradings": gradings,
        },
        rates={"requests": client_requests, "connections": client_connections},
        allowed_hosts=allowed_host,
        log_format=log,
        store=store,
        reconnect_s=reconnect,
        workers=workers,
        replica=replica or "",
        drain_s=drain,
        prepare=prepare,
    )
    raise typer.Exit(code)


def _penalty(model: str, weight: float, base_url: str, api_key_env: str) -> "PenaltySettings":
    """Return the settings of a judge that lowers rewards."""
    from ...environments.agents.openai import ModelOptions
    from ...environments.openenv import PenaltySettings

    return PenaltySettings(model, ModelOptions(base_url, api_key_env, timeout_s=60.0), weight)


@asks_model("model")
def run(
    agent: AgentName = "oracle",
    tasks: Annotated[
        Path,
        typer.Option(help="Play a folder's tasks, those of hub:USER/NAME@REVISION, or 'drill' for drills."),
    ] = Path("tasks"),
    url: Url = None,
    number: Annotated[
        int, typer.Option("--n", min=1, metavar="N", help="Play N episodes per task; two or more give pass@k.")
    ] = 1,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Play only the first N tasks; default: all.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Write episodes.jsonl and summary.json to this folder.")] = (
        Path("runs/latest")
    ),
    model: Any = None,
    faults: Annotated[
        str | None, typer.Option(help="Make calls fail as in `etude serve`; default with --url: the server's.")
    ] = None,
    annotate: Annotated[
        str,
        typer.Option(help="Put error turns and hints in the records alone ('state') or show them ('observation')."),
    ] = "state",
    jobs: Jobs = 1,
    sandbox: Sandbox = "auto",
    as_json: Json = False,
) -> None:
    """Play episodes and write them to a folder."""
    import asyncio

    from ...environments.runs.play import run_episodes

    task_set = tasks_of(tasks)
    with progress_bar("run") as progress:
        playing = run_episodes(
            task_set,
            agent,
            url=url,
            jobs=jobs,
            out=out,
            n=number,
            limit=limit,
            backend=sandbox,
            faults=faults,
            annotate=annotate,
            model=model,
            progress=progress,
        )
        summary = asyncio.run(playing)
    _show_summary(summary, as_json)
    console.exit_unless(summary.ok)


def _show_summary(summary: "Summary", as_json: bool) -> None:
    """Print the summary of a run, then one line for each cause of failed episodes."""
    columns = ("agent", "episodes", "valid", "solved", "reward", "sandbox", "out")
    row = {name: getattr(summary, name) for name in columns} | {"sandbox": ", ".join(summary.sandbox)}
    row |= {f"pass@{k}": f"{at['value']:.3g} [{at['low']:.2g}, {at['high']:.2g}]" for k, at in summary.pass_at.items()}
    row |= {f"twins: {name}": f"{summary.twins[name]:.3g}" for name in ("cheat_rate", "give_up_rate") if summary.twins}
    row |= {
        name: summary.usage[name] for name in ("calls", "prompt_tokens", "completion_tokens", "usd") if summary.usage
    }
    console.show({**console.plain(summary), "ok": summary.ok}, [row], as_json)
    if summary.earlier:
        played = (
            f"{summary.earlier} of {summary.episodes} episodes are in {summary.out} already and were not played again"
        )
        console.show_warning(f"{played}; for new ones choose another --out")
    by_cause: dict[str, list[str]] = {}
    for task_id, cause in summary.failures.items():
        by_cause.setdefault(cause.replace(f"task {task_id!r}", "the task"), []).append(task_id)
    for cause, failed in by_cause.items():
        console.show_error(f"{failed[0] if len(failed) == 1 else f'{len(failed)} episodes'}: {cause}")


def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders with episodes.jsonl, or one folder of a training run.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write this page; default: report.html, for training in its folder."),
    ] = None,
    tasks: Annotated[
        Path | None, typer.Option(help="Show diffs against the workspaces of this folder's tasks.")
    ] = None,
    reveal: Annotated[
        bool, typer.Option("--reveal", help="Show hidden tests and reference solutions; do not publish such a page.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write the viewer as one HTML page: each turn of the episodes, errors with hints, a training run's curves."""
    from ...environments.runs.writer import FILE_NAME
    from ...trainers.report.page import write_report as write_training_report
    from .view import training_data

    training = training_data(runs)
    if len(runs) == 1 and training and not (runs[0] / FILE_NAME).is_file() and tasks is None:
        page = write_training_report(runs[0], out)
        console.show(page, [console.plain(page)], as_json)
        return
    from ...server.viewer import write_report

    page_file = out or (runs[0] if len(runs) == 1 and training else Path()) / "report.html"
    with progress_bar("report") as progress:
        written = write_report(runs, page_file, tasks=tasks, reveal=reveal, training=training, progress=progress)
    console.show(written, [console.plain(written)], as_json)
