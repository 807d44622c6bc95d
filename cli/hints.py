"""The commands of ``etude hints``: what hints are worth, and what came of error turns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from . import console
from .options import (
    OPENAI,
    ApiKeyEnv,
    BaseUrl,
    Dollars,
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

hints = typer.Typer(no_args_is_help=True, help="Measure what hints are worth.")


@hints.command()
def causal(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, with its episodes.jsonl.")],
    agent: Annotated[
        str, typer.Option("--agent", "-a", help="Who plays on: openai:MODEL, or noisy:SOLVES,FOLLOWS.")
    ] = "noisy",
    k: Annotated[int, typer.Option("--k", min=1, help="Continuations with a hint, and as many without.")] = 8,
    sample: Annotated[int | None, typer.Option(min=1, help="Only so many error turns, drawn by --seed.")] = None,
    choose: Annotated[
        str,
        typer.Option(
            help="Which hint: first, drawn uniform, the one with this ID, or drawn by a policy MODULE:ATTRIBUTE."
        ),
    ] = "first",
    texts: Annotated[Path | None, typer.Option(help="More candidates, as `write` makes them.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for trials.jsonl and hints.jsonl; default: RUN/hints.")
    ] = None,
    tasks: Annotated[
        str | None, typer.Option(help="Folder of the run's tasks, or the word 'drill'; default: drills.")
    ] = None,
    url: Url = None,
    seed: Annotated[int, typer.Option(help="Same seed, same samples and draws.")] = 0,
    base_url: BaseUrl = OPENAI,
    api_key_env: ApiKeyEnv = "OPENAI_API_KEY",
    tool_format: ToolFormat = "native",
    temperature: Temperature = None,
    max_tokens: MaxTokens = 4096,
    timeout: Timeout = 300.0,
    price: Prices = "0,0",
    budget: Dollars = None,
    token_budget: TokenBudget = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Error turns at once.")] = 1,
    sandbox: Sandbox = "auto",
    as_json: Json = False,
) -> None:
    """Play on from before each error turn, with its hint and without: the difference in success is its score."""
    import asyncio

    from ..environments.hint_trials.hint_candidates import read_texts
    from ..environments.hint_trials.measure import measure_hints

    model = model_options(
        base_url, api_key_env, tool_format, temperature, max_tokens, timeout, price, budget, token_budget
    )
    known = None if tasks is None else tasks_of(tasks)
    if texts is not None and choose == "first":
        console.show_error("--choose first never takes one of the --texts: try them with --choose uniform, or one's id")
    with console.progress_bar("causal") as progress:
        measuring = measure_hints(
            run,
            agent,
            k=k,
            out=out or run / "hints",
            tasks=known,
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
    _show({**console.plain(report), "ok": report.ok}, [score.row() for score in report.pooled], as_json)
    if not as_json:
        print(
            f"{report.measured} of {report.error_turns} error turns measured ({report.without_hint} without a hint, "
            f"{report.unreached} without a turn to change); trials: {sum(report.valid.values())} valid, "
            f"{sum(report.void.values())} void, {report.replayed} replayed, {report.diverged} diverged; in {report.out}"
        )
    for cause, number in report.causes.items():
        console.show_error(f"{number} trials: {cause}")
    if not report.ok:
        raise typer.Exit(1)


@hints.command()
def write(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, with its episodes.jsonl.")],
    model: Annotated[str, typer.Option("--model", "-m", help="The model that writes, as the endpoint names it.")],
    introspect: Annotated[
        bool, typer.Option("--introspect", help="Ask as if it were the agent: what hint would you have needed?")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File for the texts; default: RUN/texts.jsonl.")
    ] = None,
    name: Annotated[str, typer.Option("--id", help="The texts' id; default: llm, or introspect.")] = "",
    tasks: Annotated[
        str | None, typer.Option(help="Folder of the run's tasks: no text may give their secret parts away.")
    ] = None,
    base_url: BaseUrl = OPENAI,
    api_key_env: ApiKeyEnv = "OPENAI_API_KEY",
    temperature: Temperature = None,
    max_tokens: MaxTokens = 4096,
    timeout: Timeout = 300.0,
    price: Prices = "0,0",
    budget: Dollars = None,
    token_budget: TokenBudget = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Questions at once.")] = 1,
    as_json: Json = False,
) -> None:
    """Have a model write a hint for each error turn: candidates for `etude hints causal --texts`."""
    import asyncio

    from ..environments.hint_trials.hint_writer import ask_for_hints

    options = model_options(
        base_url, api_key_env, "native", temperature, max_tokens, timeout, price, budget, token_budget
    )
    known = None if tasks is None else tasks_of(tasks)
    with console.progress_bar("write") as progress:
        asking = ask_for_hints(
            run,
            model,
            out=out or run / "texts.jsonl",
            introspect=introspect,
            name=name,
            tasks=known,
            jobs=jobs,
            options=options,
            progress=progress,
        )
        report = asyncio.run(asking)
    _show({**console.plain(report), "ok": report.ok}, report.kinds, as_json)
    if not as_json:
        print(report.summary())
    if report.unchecked:
        console.show_error(f"{report.unchecked} texts were not checked for leaks: name the tasks with --tasks")
    if not report.ok:
        console.show_error("some error turns were not answered for: the same command asks for these alone")
        raise typer.Exit(1)
    if not report.written:
        console.show_error(f"no answer could be used as a hint: to ask again, remove {report.out}.answers")
        raise typer.Exit(1)


@hints.command("eval")
def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, with its episodes.jsonl.")],
    as_json: Json = False,
) -> None:
    """By kind of error: how often there was a hint, how long it was, and whether the next attempt succeeded."""
    from ..environments.hint_trials.observed import measure
    from ..environments.runs.reader import stored_episodes

    rows = [one.row() for one in measure((one.episode, one.shown) for one in stored_episodes(run))]
    _show({"kinds": rows}, rows, as_json)
    if not rows and not as_json:
        print("no error turns")


def _show(result: Any, rows: list[Mapping[str, Any]] | list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        console.show_json(result)
    else:
        console.show_table(rows)
