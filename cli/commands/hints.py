"""Commands of ``etude hints``: ``causal``, ``write`` and ``eval``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from .. import console
from ..options import Json, Questions, RunFolder, Sandbox, Url, asks_model, tasks_of
from ..progress import progress_bar

hints = typer.Typer(no_args_is_help=True, help="Write hints and measure how much they help.")


@hints.command()
@asks_model("model")
def causal(
    run: RunFolder,
    agent: Annotated[
        str, typer.Option("--agent", "-a", help="Continue with this agent: openai:MODEL, or noisy:SOLVES,FOLLOWS.")
    ] = "noisy",
    k: Annotated[
        int, typer.Option("--k", min=1, metavar="K", help="Play K continuations with the hint, K without.")
    ] = 8,
    sample: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Measure only N error turns, drawn by --seed; default: all.")
    ] = None,
    choose: Annotated[
        str,
        typer.Option(
            help="Give the 'first' hint, a 'uniform' draw, the hint with this ID, or a draw of MODULE:POLICY."
        ),
    ] = "first",
    texts: Annotated[Path | None, typer.Option(help="Add candidates from a file of `etude hints write`.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write trials.jsonl and hints.jsonl here; default: RUN/hints.")
    ] = None,
    tasks: Annotated[
        str | None,
        typer.Option(help="Read the run's tasks from this folder; default: those that an environment makes itself."),
    ] = None,
    url: Url = None,
    seed: Annotated[int, typer.Option(help="Draw error turns and hints with this seed.")] = 0,
    model: Any = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, metavar="N", help="Measure N error turns at once.")] = 1,
    sandbox: Sandbox = "auto",
    as_json: Json = False,
) -> None:
    """Score each hint: continue from before its error turn with and without it, and compare the success."""
    import asyncio

    from ...environments.hint_trials.hint_candidates import read_texts
    from ...environments.hint_trials.measure import measure_hints

    task_set = None if tasks is None else tasks_of(tasks)
    if texts is not None and choose == "first":
        console.show_warning("--choose first never takes one of the --texts; use --choose uniform, or an id of a text")
    with progress_bar("causal") as progress:
        measuring = measure_hints(
            run,
            agent,
            k=k,
            out=out or run / "hints",
            tasks=task_set,
            url=url,
            backend=sandbox,
            sample=sample,
            choose=choose,
            texts=read_texts(texts) if texts is not None else (),
            seed=seed,
            jobs=jobs,
            model=model,
            progress=progress,
        )
        report = asyncio.run(measuring)
    console.show({**console.plain(report), "ok": report.ok}, [score.row() for score in report.pooled], as_json)
    if not as_json:
        print(
            f"{report.measured} of {report.error_turns} error turns measured ({report.without_hint} without a hint, "
            f"{report.unreached} without a turn to change); trials: {sum(report.valid.values())} valid, "
            f"{sum(report.void.values())} void, {report.replayed} replayed, {report.diverged} diverged; in {report.out}"
        )
    for cause, number in report.causes.items():
        console.show_error(f"{number} trials: {cause}")
    console.exit_unless(report.ok)


@hints.command()
@asks_model("options", without=["tool_format"])
def write(
    run: RunFolder,
    model: Annotated[str, typer.Option("--model", "-m", help="Let this model write, as the endpoint names it.")],
    introspect: Annotated[
        bool, typer.Option("--introspect", help="Ask the model as if it were the agent: which hint did you need?")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the texts to this file; default: RUN/texts.jsonl.")
    ] = None,
    name: Annotated[str, typer.Option("--id", help="Give the texts this id; default: llm, or introspect.")] = "",
    tasks: Annotated[
        str | None, typer.Option(help="Check the texts for secret parts of the tasks in this folder.")
    ] = None,
    options: Any = None,
    jobs: Questions = 1,
    as_json: Json = False,
) -> None:
    """Let a model write a hint for each error turn, as candidates for `etude hints causal --texts`."""
    import asyncio

    from ...environments.hint_trials.hint_writer import ask_for_hints

    task_set = None if tasks is None else tasks_of(tasks)
    with progress_bar("write") as progress:
        asking = ask_for_hints(
            run,
            model,
            out=out or run / "texts.jsonl",
            introspect=introspect,
            name=name,
            tasks=task_set,
            jobs=jobs,
            options=options,
            progress=progress,
        )
        report = asyncio.run(asking)
    console.show({**console.plain(report), "ok": report.ok}, report.kinds, as_json)
    if not as_json:
        print(report.summary())
    if report.unchecked:
        console.show_error(f"{report.unchecked} texts were not checked for leaks: name the tasks with --tasks")
    if not report.ok:
        console.show_error("some error turns have no answer yet; run the same command again to ask for them alone")
    elif not report.written:
        console.show_error(f"no answer can be used as a hint; delete {report.out}.answers to ask again")
    console.exit_unless(report.ok and report.written > 0)


@hints.command("eval")
def evaluate(run: RunFolder, as_json: Json = False) -> None:
    """Print for each kind of error how often it had a hint, its length, and whether the next attempt succeeded."""
    from ...environments.hint_trials.observed import measure_run

    with progress_bar("eval") as progress:
        rows = [kind.row() for kind in measure_run(run, progress)]
    console.show({"kinds": rows}, rows, as_json)
    if not rows and not as_json:
        print("no error turns")
