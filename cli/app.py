"""The command line. Each command calls one function; nothing heavy is imported before the command that needs it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from . import console
from . import hints as cli_hints
from . import train as cli_train
from .options import (
    OPENAI,
    ApiKeyEnv,
    BaseUrl,
    Dollars,
    Jobs,
    Json,
    MaxTokens,
    Prices,
    Sandbox,
    Temperature,
    Timeout,
    TokenBudget,
    ToolFormat,
    Url,
    model_options,
    tasks_of,
)

app = typer.Typer(
    name="etude",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

snapshots = typer.Typer(no_args_is_help=True, help="Carry snapshots to where no package index is.")
app.add_typer(snapshots, name="snapshot")
sandboxes = typer.Typer(no_args_is_help=True, help="Check the sandboxes, tidy up after them, look into one.")
app.add_typer(sandboxes, name="sandbox")
app.add_typer(cli_hints.hints, name="hints")
app.add_typer(cli_train.app)


def _print_version(wanted: bool) -> None:
    if wanted:
        from .. import __version__

        print(__version__)
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Real repositories become practice pieces for coding agents."""


@app.command()
def doctor(as_json: Json = False) -> None:
    """What works here, and how to get what is missing."""
    from .doctor import examine

    diagnosis = examine()
    rows = [
        {
            "": "ok" if check.ok else "MISSING" if check.required else "-",
            "area": check.area,
            "name": check.name,
            "finding": check.detail if check.ok else f"{check.detail}: {check.remedy}".removeprefix(": "),
        }
        for check in diagnosis.checks
    ]
    _show(diagnosis, rows, as_json)
    _exit_unless(diagnosis.ok)


@app.command("list")
def list_(
    kind: Annotated[str, typer.Argument(help="generators, environments, sandboxes or agents; default: all.")] = "",
    as_json: Json = False,
) -> None:
    """What there is, built-in and by third parties."""
    found = catalogue([kind] if kind else list(CATALOGUE))
    rows = [
        {"kind": kind, "name": name, "where": path} for kind, names in found.items() for name, path in names.items()
    ]
    _show(found, rows, as_json)


@app.command()
def generate(
    sources: Annotated[list[str], typer.Argument(help="pypi:NAME==VERSION, git+URL@REV, a folder or an archive.")],
    generators: Annotated[str, typer.Option("--generators", "-g", help="Names with commas between, or 'all'.")] = "all",
    count: Annotated[int, typer.Option(min=1, help="Most candidates per source and generator.")] = 20,
    seed: Annotated[int, typer.Option(help="Same seed, same bytes.")] = 0,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for tasks.jsonl, report.json, README.md.")] = Path(
        "tasks"
    ),
    jobs: Jobs = 1,
    python: Annotated[str | None, typer.Option(help="Interpreter version of the snapshot, such as 3.12.")] = None,
    pytest: Annotated[str | None, typer.Option(help="Version of pytest in the snapshot.")] = None,
    setup_cmd: Annotated[list[str] | None, typer.Option(help="Runs in the source's folder first; repeatable.")] = None,
    recipe: Annotated[Path | None, typer.Option(help="TOML file of snapshot options; flags win.")] = None,
    knob: Annotated[list[str] | None, typer.Option(help="KEY=VALUE for the generators; repeatable.")] = None,
    any_licence: Annotated[bool, typer.Option("--any-licence", help="Also from code that is not permissive.")] = False,
    pack: Annotated[bool, typer.Option("--pack", help="Add the snapshots' archives to the set.")] = False,
    sandbox: Sandbox = "auto",
    as_json: Json = False,
) -> None:
    """Make tasks from source code."""
    settings = knobs(knob or [])
    options = snapshot_options(recipe, {"python": python, "pytest": pytest, "setup_cmds": setup_cmd})
    from ..generators.generate import generate as make_tasks

    with cli_train.sigterm_interrupts(), console.progress_bar("generate") as progress:
        report = make_tasks(
            list(dict.fromkeys(sources)),
            generators=list(dict.fromkeys(name.strip() for name in generators.split(","))),
            count=count,
            seed=seed,
            out=out,
            jobs=jobs,
            options=options,
            knobs=settings,
            backend=sandbox,
            any_licence=any_licence,
            pack=pack,
            progress=console.as_updates(progress),
        )
    rows = [
        {"source": source, **console.plain(part), "rejected": _counts(part.rejected)}
        for source, part in report.per_source.items()
    ]
    _show(report.row(), rows, as_json)
    if not report.tasks:
        console.show_error(
            f"no candidate became a task: see {out / 'report.json'}, raise --count or take another source"
        )
    _exit_unless(report.tasks > 0)


@app.command()
def validate(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that holds tasks.jsonl.")],
    sample: Annotated[int | None, typer.Option(min=1, help="Only so many tasks, chosen by hash.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="New folder for the tasks that hold.")] = None,
    skip: Annotated[list[str] | None, typer.Option(help="A check to leave out; repeatable.")] = None,
    runs: Annotated[int, typer.Option(min=1, help="How often the flake audit runs each solution.")] = 3,
    jobs: Jobs = 1,
    sandbox: Sandbox = "auto",
    as_json: Json = False,
) -> None:
    """Check a task set again: agents, leaks, flakes, duplicates, statements. --out writes what holds."""
    from ..generators.validation.audit import validate as check_tasks

    with console.progress_bar("validate") as progress:
        report = check_tasks(
            folder,
            sample=sample,
            jobs=jobs,
            backend=sandbox,
            skip=skip or (),
            runs=runs,
            out=out,
            progress=console.as_updates(progress),
        )
    _show({**console.plain(report), "ok": report.ok}, [console.plain(row) for row in report.rows], as_json)
    for problem in report.problems:
        console.show_error(str(problem))
    if report.written is not None and not as_json:
        print(f"{report.written} of {report.tasks} tasks written to {out}")
    _exit_unless(report.ok)


@app.command()
def serve(
    tasks: Annotated[Path | None, typer.Option(help="Folder that holds tasks.jsonl; default: $ETUDE_TASKS.")] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 opens it to the network.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    sandbox: Sandbox = "auto",
    environment: Annotated[
        str | None, typer.Option("--env", help="Who plays: coding, drill (needs no tasks), ...; default: $ETUDE_ENV.")
    ] = None,
    faults: Annotated[
        str | None, typer.Option(help="Make calls fail on purpose: rate=0.2,timeout,seed=7 or renamed@3.")
    ] = None,
    knob: Annotated[
        list[str] | None, typer.Option(help="KEY=VALUE: turns, tools; for drills families, level; repeatable.")
    ] = None,
) -> None:
    """Serve tasks over OpenEnv until interrupted."""
    settings = knobs(knob or [])
    from ..server.app import serve as serve_tasks

    code = serve_tasks(
        tasks, host=host, port=port, backend=sandbox, environment=environment, faults=faults, knobs=settings
    )
    raise typer.Exit(code)


@app.command()
def run(
    agent: Annotated[str, typer.Option("--agent", "-a", help="Who plays; see `etude list agents`.")] = "oracle",
    tasks: Annotated[Path, typer.Option(help="Folder that holds tasks.jsonl, or the word 'drill'.")] = Path("tasks"),
    url: Url = None,
    number: Annotated[int, typer.Option("--n", min=1, help="Episodes per task; more give pass@k.")] = 1,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many tasks.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for episodes.jsonl and summary.json.")] = Path(
        "runs/latest"
    ),
    base_url: BaseUrl = OPENAI,
    api_key_env: ApiKeyEnv = "OPENAI_API_KEY",
    tool_format: ToolFormat = "native",
    temperature: Temperature = None,
    max_tokens: MaxTokens = 4096,
    timeout: Timeout = 300.0,
    price: Prices = "0,0",
    budget: Dollars = None,
    token_budget: TokenBudget = None,
    faults: Annotated[
        str | None, typer.Option(help="As for `etude serve`; with --url the default is that of the server.")
    ] = None,
    annotate: Annotated[
        str, typer.Option(help="Who sees annotations and hints: 'state', the records alone; 'observation', the agent.")
    ] = "state",
    jobs: Jobs = 1,
    sandbox: Sandbox = "auto",
    as_json: Json = False,
) -> None:
    """Play episodes."""
    import asyncio

    from ..environments.runs.play import run_episodes

    model = model_options(
        base_url, api_key_env, tool_format, temperature, max_tokens, timeout, price, budget, token_budget
    )
    task_set = tasks_of(tasks)
    with console.progress_bar("run") as progress:
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
    columns = ("agent", "episodes", "valid", "solved", "reward", "sandbox", "out")
    row = {name: getattr(summary, name) for name in columns} | {"sandbox": ", ".join(summary.sandbox)}
    row |= {f"pass@{k}": f"{at['value']:.3g} [{at['low']:.2g}, {at['high']:.2g}]" for k, at in summary.pass_at.items()}
    row |= {
        name: summary.usage[name] for name in ("calls", "prompt_tokens", "completion_tokens", "usd") if summary.usage
    }
    _show({**console.plain(summary), "ok": summary.ok}, [row], as_json)
    by_cause: dict[str, list[str]] = {}
    for task_id, cause in summary.failures.items():
        by_cause.setdefault(cause.replace(f"task {task_id!r}", "the task"), []).append(task_id)
    for cause, tasks_hit in by_cause.items():
        console.show_error(f"{tasks_hit[0] if len(tasks_hit) == 1 else f'{len(tasks_hit)} episodes'}: {cause}")
    _exit_unless(summary.ok)


@snapshots.command("pack")
def snapshot_pack(
    what: Annotated[str, typer.Argument(metavar="DIGEST|DIR", help="A snapshot in the cache, or a task set.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The archive; default: NAME-VERSION.tar.xz.")] = None,
    as_json: Json = False,
) -> None:
    """One snapshot as a file, or every snapshot of a task set into DIR/blobs."""
    if "/" in what or Path(what).is_dir():
        from ..generators.output.pack_set import pack_set

        if out is not None:
            raise typer.BadParameter("a task set keeps its archives in DIR/blobs", param_hint="--out")
        with console.progress_bar("pack") as progress:
            report = pack_set(Path(what), progress=console.as_updates(progress))
        _show(report, report.snapshots, as_json)
        return
    from ..environments.snapshots.store.pack import SUFFIX, find_snapshot, pack

    found = find_snapshot(what)
    packed = pack(found, out or Path(f"{found.name}-{found.version}{SUFFIX}"))
    row = {**console.plain(packed), "path": str(packed.path)}
    _show(row, [row], as_json)


@snapshots.command("unpack")
def snapshot_unpack(
    what: Annotated[Path, typer.Argument(metavar="FILE|DIR", help="An archive, or a task set that carries some.")],
    sha256: Annotated[str, typer.Option(help="What the archive's bytes must hash to.")] = "",
    as_json: Json = False,
) -> None:
    """Bring snapshots into the cache."""
    if what.is_dir():
        from ..generators.output.pack_set import unpack_set

        if sha256:
            raise typer.BadParameter("a task set's rows hold the hashes of its archives", param_hint="--sha256")
        with console.progress_bar("unpack") as progress:
            rows = unpack_set(what, progress=console.as_updates(progress))
    else:
        from ..environments.snapshots.store.unpack import unpack

        found = unpack(what, sha256=sha256)
        rows = [{"source": f"{found.name} {found.version}", "digest": found.digest, "path": str(found.path)}]
    _show({"snapshots": rows}, rows, as_json)


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that holds tasks.jsonl.")],
    format_: Annotated[str, typer.Option("--format", "-f", help="nemo-gym, swe-bench (tasks) or sft (episodes).")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for FORMAT.jsonl (.parquet too with pyarrow).")],
    episodes: Annotated[Path | None, typer.Option(help="Folder of a run; sft is made of its episodes.")] = None,
    as_json: Json = False,
) -> None:
    """Write tasks or episodes in another format."""
    from ..generators.export import export as write

    report = write(folder, format_, out, episodes=episodes)
    _show(report, [{**console.plain(report), "files": ", ".join(report.files)}], as_json)


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders that hold episodes.jsonl, or one of a training run.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The page; default: report.html, a training run's in its folder.")
    ] = None,
    tasks: Annotated[Path | None, typer.Option(help="The runs' task set: diffs against its workspaces.")] = None,
    as_json: Json = False,
) -> None:
    """Show runs as one HTML page: each turn, where it went wrong, what would have helped. Of a training run: curves."""
    from ..trainers.report.page import write_report as write_training
    from ..trainers.report.run_files import is_run

    if len(runs) == 1 and is_run(runs[0]) and tasks is None:
        page = write_training(runs[0], out)
        _show(page, [console.plain(page)], as_json)
        return
    from ..server.viewer import write_report

    written = write_report(runs, out or Path("report.html"), tasks=tasks)
    _show(written, [console.plain(written)], as_json)


@sandboxes.command("check")
def sandbox_check(
    backends: Annotated[list[str] | None, typer.Argument(help="Backends; default: all.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every backend, as without a name.")] = False,
    runtime: Annotated[str, typer.Option(help="The container runtime that docker takes, such as runsc.")] = "",
    times: Annotated[bool, typer.Option("--times", help="Also measure, with plain docker and bwrap beside.")] = False,
    tasks: Annotated[Path | None, typer.Option(help="With --times: grade tasks of this folder too.")] = None,
    as_json: Json = False,
) -> None:
    """Run the conformance suite on the backends; one row each."""
    from ..environments.grading.timing import grader_of
    from ..environments.sandbox.conformance import check_backends as checking

    if runtime:
        os.environ["ETUDE_DOCKER_RUNTIME"] = runtime
    found = checking.check([] if everything else backends or [], times=times, grader=grader_of(tasks))
    plain = checking.plain_costs() if times else {}
    _show(checking.as_data(found, plain), checking.as_rows(found, plain), as_json)
    _exit_unless(checking.is_ok(found))


@sandboxes.command("cleanup")
def sandbox_cleanup(as_json: Json = False) -> None:
    """Remove what dead servers left: containers, folders."""
    from ..environments.sandbox.conformance.check_backends import clean_up

    removed = clean_up()
    rows = [{"backend": backend, "removed": ", ".join(names) or "nothing"} for backend, names in removed.items()]
    _show(removed, rows, as_json)


@sandboxes.command("shell")
def sandbox_shell(
    task: Annotated[str, typer.Argument(help="A task's id.")],
    tasks: Annotated[Path, typer.Option(help="Folder that holds tasks.jsonl.")] = Path("tasks"),
    sandbox: Sandbox = "auto",
) -> None:
    """Type commands into a task's sandbox, as its agent would; nothing is left behind.

    Each line is a command of its own: the working folder lasts, variables and background jobs do not.
    """
    import asyncio

    from ..environments.sandbox import open_sandbox
    from ..environments.sandbox.shell import converse, typed_lines
    from ..environments.tasks.task_set import TaskSet
    from ..environments.tasks.task_trees import materials

    task_set = TaskSet.load(tasks)
    layers = materials(task_set.by_id(task), blobs=task_set.blobs).agent_layers

    async def talk() -> int:
        opened = await open_sandbox(layers, backend=sandbox)
        try:
            return await converse(opened, typed_lines())
        finally:
            await opened.close()

    raise typer.Exit(asyncio.run(talk()))


@app.command()
def demo(
    source: Annotated[str, typer.Option(help="Where the tasks come from.")] = "pypi:cachetools==5.5.0",
    count: Annotated[int, typer.Option(min=1, help="Candidates tried.")] = 4,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the tasks.")] = Path("runs/demo"),
    jobs: Jobs = 2,
    sandbox: Sandbox = "auto",
    as_json: Json = False,
) -> None:
    """A real package becomes tasks, is served, and played by the scripted agents; then a tiny model is trained."""
    from .demo import run_demo
    from .train import demo_training

    with console.progress_bar("demo") as progress:
        result = run_demo(source, count=count, out=out, jobs=jobs, backend=sandbox, progress=progress)
    if not as_json:
        console.show_table([console.plain(row) for row in result.rows])
        print(f"{result.statement}\nreport: {result.report}")
    trained = demo_training(out / "train")
    if as_json:
        console.show_json({**console.plain(result), "training": trained})
    elif trained is None:
        print("no training: it needs torch, transformers and TRL (`make demo` installs them)")
    else:
        print(f"training: {trained['steps']} steps in {trained['seconds']:.0f} s; report: {trained['report']}")
        if trained["stopped"]:
            console.show_error(trained["stopped"])
    _exit_unless(result.ok and (trained is None or trained["ok"]))


_PACKAGE = (__package__ or "").partition(".")[0]
INTERRUPTED = 130  # what typer makes of Ctrl-C: 128 + SIGINT
TERMINATED = 143  # 128 + SIGTERM

CATALOGUE = {
    "generators": (".generators", "GENERATORS"),
    "environments": (".environments", "ENVIRONMENTS"),
    "sandboxes": (".environments.sandbox", "SANDBOXES"),
    "agents": (".environments.agents", "AGENTS"),
}


def catalogue(kinds: Sequence[str]) -> dict[str, dict[str, str]]:
    """Registered names and where they live, by kind. Raises UnknownName."""
    from importlib import import_module

    from ..errors import UnknownName
    from ..registry import did_you_mean

    found = {}
    for kind in kinds:
        if kind not in CATALOGUE:
            raise UnknownName(did_you_mean("kind", kind, CATALOGUE))
        module, attribute = CATALOGUE[kind]
        paths = getattr(import_module(module, _PACKAGE), attribute).paths()
        found[kind] = {name: f"{_PACKAGE}{path}" if path[0] == "." else path for name, path in sorted(paths.items())}
    return found


def knobs(pairs: Sequence[str]) -> dict[str, Any]:
    """``key=value`` pairs; a value that is JSON (a number, true, a list) is read as such, any other is a string."""
    import json

    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint="--knob")
        try:
            found[key] = json.loads(text)
        except json.JSONDecodeError:
            found[key] = text
    return found


def snapshot_options(recipe: Path | None, flags: Mapping[str, Any]) -> Any:
    """Options from a TOML file, overridden by the flags that were given. Raises SnapshotError."""
    from ..environments.snapshots import SnapshotOptions

    written = SnapshotOptions.from_toml(recipe).model_dump(exclude_unset=True) if recipe else {}
    return SnapshotOptions(**{**written, **{name: value for name, value in flags.items() if value is not None}})


def _show(result: Any, rows: Sequence[Mapping[str, Any]], as_json: bool) -> None:
    if as_json:
        console.show_json(result)
    else:
        console.show_table(rows)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(counts.items()))


def _exit_unless(ok: bool) -> None:
    if not ok:
        raise typer.Exit(1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 0 only when the thing asked for was done."""
    try:
        result = app(args=arguments, prog_name="etude", standalone_mode=False)
        sys.stdout.flush()
    except typer.Abort:
        console.show_error("aborted")
        return 1
    except BrokenPipeError:
        # The reader of stdout went away (`etude list | head`): the interpreter must not fail to flush it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:  # noqa: BLE001 - the one place where errors become a line and an exit code
        return _failed(error)
    if result in (INTERRUPTED, TERMINATED):
        console.show_error("interrupted: run again, `generate`, `run`, `replay` and `train` go on where they stopped")
    return result if isinstance(result, int) else 0


def _failed(error: Exception) -> int:
    usage = getattr(error, "format_message", None)
    message = usage() if usage else console.explain(error)
    if message is None or (console.debugging() and not usage):
        raise error
    if message:  # empty: help was shown instead
        console.show_error(message)
    return getattr(error, "exit_code", 1)


if __name__ == "__main__":
    sys.exit(main())
