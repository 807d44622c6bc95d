"""Commands about task sets: ``generate``, ``validate``, ``export``, ``snapshot pack`` and ``snapshot unpack``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from .. import console
from ..options import ApiKeyEnv, Jobs, Json, Sandbox, TasksFolder, key_values, names_of, sigterm_interrupts
from ..progress import as_updates, busy, progress_bar
from .rows import import_

snapshots = typer.Typer(no_args_is_help=True, help="Move snapshots to machines without a package index.")


def generate(
    sources: Annotated[
        list[str], typer.Argument(help="pypi:NAME==VERSION, git+URL@REV, a folder, an archive, swe-bench:lite.")
    ],
    generators: Annotated[
        str,
        typer.Option(
            "--generators",
            "-g",
            autocompletion=names_of("generators", "all"),
            help="Use these generators, separated by commas; see `etude list`.",
        ),
    ] = "all",
    count: Annotated[
        int, typer.Option(min=1, help="Try at most N candidates per source and generator.", metavar="N")
    ] = 20,
    seed: Annotated[int, typer.Option(help="Draw candidates with this seed; the same seed gives the same bytes.")] = 0,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Write tasks.jsonl, report.json and README.md to this folder.")
    ] = Path("tasks"),
    jobs: Jobs = 1,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS|local", help="Do the work on this Ray cluster, or on Ray started here with --jobs CPUs."
        ),
    ] = None,
    python: Annotated[
        str | None, typer.Option(help="Build the snapshot with this Python version, such as 3.12.")
    ] = None,
    pytest: Annotated[str | None, typer.Option(help="Install this version of pytest in the snapshot.")] = None,
    setup_cmd: Annotated[
        list[str] | None, typer.Option(help="Run this command in the source's folder first; repeatable.")
    ] = None,
    recipe: Annotated[
        Path | None, typer.Option(help="Read snapshot options from this TOML file; options given here win.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="DATE", help="Take only changes of history from this day on (YYYY-MM-DD).")
    ] = None,
    knob: Annotated[list[str] | None, typer.Option(help="Set KEY=VALUE for the generators; repeatable.")] = None,
    assurance: Annotated[
        Literal["in_process", "out_of_process"],
        typer.Option(help="Keep only tasks that are graded out of process too, or all."),
    ] = "in_process",
    any_licence: Annotated[
        bool, typer.Option("--any-licence", help="Accept code whose licence is not permissive.")
    ] = False,
    difficulty: Annotated[
        str,
        typer.Option(
            metavar="LOW:HIGH",
            help="Keep only tasks that are expected to fail in this share of the tries, 0 to 1, or easy, medium, hard.",
        ),
    ] = "",
    curriculum: Annotated[
        Path | None,
        typer.Option(
            metavar="RUNS", help="Choose knobs by the solve rates of the runs in this folder; see docs/curriculum.md."
        ),
    ] = None,
    pack: Annotated[bool, typer.Option("--pack", help="Add the snapshots' archives to the task set.")] = False,
    impossible: Annotated[
        bool, typer.Option("--impossible", help="Add twins that no honest solution passes; agents may give up.")
    ] = False,
    obfuscate: Annotated[
        bool, typer.Option("--obfuscate", help="Add twins whose identifiers are renamed, to measure recall.")
    ] = False,
    splits: Annotated[
        str, typer.Option(metavar="NAME=SHARE,...", help="Draw the split of each repository with these shares.")
    ] = "train=0.8,validation=0.1,test=0.1",
    min_strength: Annotated[
        float, typer.Option(min=0, max=1, help="Put tasks with a lower verifier_strength into the split 'weak'.")
    ] = 0.6,
    reject_weak: Annotated[
        bool, typer.Option("--reject-weak", help="Reject these tasks instead of keeping them in 'weak'.")
    ] = False,
    reruns: Annotated[
        int, typer.Option(min=0, metavar="N", help="Run solution and workspace N times more; reject flaky tasks.")
    ] = 0,
    include_benchmarks: Annotated[
        bool, typer.Option("--include-benchmarks", help="Draw splits for SWE-bench, SWE-Gym and commit0 packages too.")
    ] = False,
    overlap: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Report 13-grams shared with these rows; repeatable.")
    ] = None,
    llm: Annotated[
        str | None, typer.Option(metavar="URL", help="Let generators that ask a model ask it at this endpoint.")
    ] = None,
    model: Annotated[str, typer.Option("--model", "-m", help="Name of that model, as the endpoint knows it.")] = "",
    api_key_env: ApiKeyEnv = "OPENAI_API_KEY",
    rewrite: Annotated[
        bool,
        typer.Option("--rewrite", help="Let that model write the statements in its own words; see docs/statements.md."),
    ] = False,
    sandbox: Sandbox = "auto",
    as_json: Json = False,
) -> None:
    """Make validated tasks from source code, or from the first rows of a public data set."""
    from ...generators.library.rows.formats.loading import is_data_set

    if data_sets := [source for source in sources if is_data_set(source)]:
        if len(sources) > 1:
            raise typer.BadParameter(f"{data_sets[0]} is a data set; name it alone", param_hint="SOURCES")
        if ray is not None:
            raise typer.BadParameter("a data set is imported on this machine", param_hint="--ray")
        if difficulty or curriculum:
            option = "--difficulty" if difficulty else "--curriculum"
            raise typer.BadParameter(
                "it chooses among generated tasks, not among rows of a data set", param_hint=option
            )
        if impossible or obfuscate:
            option = "--impossible" if impossible else "--obfuscate"
            raise typer.BadParameter("twins are made of generated tasks, not of a data set", param_hint=option)
        if rewrite:
            raise typer.BadParameter("statements of a data set stay as they are", param_hint="--rewrite")
        import_(data_sets[0], out, limit=count, jobs=jobs, sandbox=sandbox, as_json=as_json)
        return
    knobs = {**key_values(knob or []), **({"since": since} if since is not None else {})}
    if assurance != "in_process":
        knobs["assurance"] = assurance
    if reruns:
        knobs["reruns"] = reruns
    if reject_weak:
        knobs.setdefault("min_strength", min_strength)
    options = snapshot_options(recipe, {"python": python, "pytest": pytest, "setup_cmds": setup_cmd})
    if bool(llm) != bool(model):
        raise typer.BadParameter("give an endpoint and its model: --llm URL --model NAME", param_hint="--llm")
    if rewrite and not llm:
        raise typer.BadParameter("name the model that rewrites: --llm URL --model NAME", param_hint="--rewrite")
    from ...generators.generate import generate as make_tasks
    from ...generators.model_endpoint import ModelEndpoint
    from ...generators.output.report import failed_text
    from ...generators.selection.splits import SplitRules

    rules = SplitRules.read(splits, min_strength, include_benchmarks)
    with sigterm_interrupts(), progress_bar("generate") as progress:
        report = make_tasks(
            list(dict.fromkeys(sources)),
            generators=list(dict.fromkeys(name.strip() for name in generators.split(","))),
            count=count,
            seed=seed,
            out=out,
            jobs=jobs,
            options=options,
            knobs=knobs,
            backend=sandbox,
            any_licence=any_licence,
            pack=pack,
            impossible=impossible,
            obfuscate=obfuscate,
            rules=rules,
            overlap=overlap or (),
            endpoint=ModelEndpoint(llm, model, api_key_env) if llm else None,
            rewrite=rewrite,
            difficulty=difficulty,
            curriculum=curriculum,
            ray=ray,
            progress=as_updates(progress),
        )
    rows = [
        {"source": source, **console.plain(part), "rejected": console.counted(part.rejected)}
        for source, part in report.per_source.items()
    ]
    console.show(report.row(), rows, as_json)
    if not as_json:
        for place, reason in report.not_applicable.items():
            console.show_warning(f"{place} is left out: {reason}")
    for place, error in report.failed.items():
        console.show_warning(failed_text(place, error))
    if report.curriculum and not as_json:
        print(_curriculum_text(report.curriculum))
        if report.curriculum["warning"]:
            console.show_warning(report.curriculum["warning"])
    if rewrite and not as_json:
        retained = console.counted(report.rewriting.retained)
        reasons = f" (as generated: {retained})" if retained else ""
        print(f"statements rewritten by {model}: {report.rewriting.rewritten} of {report.tasks}{reasons}")
    if impossible and not as_json:
        print(f"impossible twins: {console.counted(report.twins) or 'none (no task to make one of)'}")
    if obfuscate and not as_json:
        print(f"renamed twins: {console.counted(report.renamed.twins) or 'none (no task to make one of)'}")
        for package, names in report.renamed.packages.items():
            reason = f" ({names.reason})" if names.reason else ""
            print(f"renamed in {package}: {names.renamed} of {names.identifiers} identifiers{reason}")
    if not as_json:
        print(f"splits: {console.counted(report.selection.splits) or 'none'}")
        for shared in report.selection.overlap:
            print(f"13-gram overlap with {shared.file}: {shared.statements} statements, {shared.patches} patches")
    if not report.tasks:
        console.show_error(
            f"no candidate became a task: see {out / 'report.json'}, raise --count or take another source"
        )
    console.exit_unless(report.tasks > 0)


def _curriculum_text(plan: Mapping[str, Any]) -> str:
    """Return what a curriculum asked for, in one line."""
    asked_for = ", ".join(
        f"{request['count']} x {request['generator']} step {request['step']}" for request in plan["requests"][:5]
    )
    more = f" and {len(plan['requests']) - 5} other settings" if len(plan["requests"]) > 5 else ""
    return f"curriculum: {plan['solve_rate']:.0%} solved in {plan['runs'][-1]}; asked for {asked_for}{more}"


def validate(
    folder: TasksFolder,
    sample: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Check only N tasks, chosen by hash; default: all.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the tasks that pass to this new folder.")
    ] = None,
    skip: Annotated[list[str] | None, typer.Option(help="Leave out this check; repeatable.")] = None,
    runs: Annotated[
        int, typer.Option(min=1, metavar="N", help="Run each solution and each workspace N times to find flaky tests.")
    ] = 3,
    jobs: Jobs = 1,
    sandbox: Sandbox = "auto",
    as_json: Json = False,
) -> None:
    """Check a task set again: scripted agents, leaks, flaky tests, duplicates, statements."""
    from ...generators.validation.audit import validate as check_tasks

    with sigterm_interrupts(), progress_bar("validate") as progress:
        report = check_tasks(
            folder,
            sample=sample,
            jobs=jobs,
            backend=sandbox,
            skip=skip or (),
            runs=runs,
            out=out,
            progress=as_updates(progress),
        )
    console.show({**console.plain(report), "ok": report.ok}, [console.plain(row) for row in report.rows], as_json)
    if report.earlier:
        console.show_warning(f"{report.earlier} of {report.tasks} tasks were checked by an earlier command")
    for problem in report.problems:
        console.show_error(str(problem))
    if report.written is not None and not as_json:
        print(f"{report.written} of {report.tasks} tasks written to {out}")
    console.exit_unless(report.ok)


def export(
    folder: TasksFolder,
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            autocompletion=names_of("exports"),
            help="Write this format; see `etude list exports` and docs/exports.md.",
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Write FORMAT.jsonl (.parquet too with pyarrow) or FORMAT/ here.")
    ],
    episodes: Annotated[
        Path | None, typer.Option(help="Take the episodes of this run's folder, for sft and messages.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", "-k", help="Set KEY=VALUE for the format; repeatable.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write tasks or episodes in another format."""
    from ...generators.export import export as write

    options = {name: str(value) for name, value in key_values(option or [], "--option").items()}
    with busy("export", f"writing {format_}"):
        report = write(folder, format_, out, episodes=episodes, options=options)
    console.show(report, [{**console.plain(report), "files": ", ".join(report.files)}], as_json)


@snapshots.command("pack")
def snapshot_pack(
    target: Annotated[str, typer.Argument(metavar="DIGEST|DIR", help="A snapshot in the cache, or a task set.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write this archive; default: NAME-VERSION.tar.xz.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write one snapshot to a file, or every snapshot of a task set to DIR/blobs."""
    if "/" in target or Path(target).is_dir():
        from ...generators.output.pack_set import pack_set

        if out is not None:
            raise typer.BadParameter("a task set keeps its archives in DIR/blobs", param_hint="--out")
        with progress_bar("pack") as progress:
            report = pack_set(Path(target), progress=as_updates(progress))
        console.show(report, report.snapshots, as_json)
        return
    from ...environments.snapshots.store.pack import SUFFIX, find_snapshot, pack

    snapshot = find_snapshot(target)
    with busy("pack", f"compressing {snapshot.name} {snapshot.version}"):
        packed = pack(snapshot, out or Path(f"{snapshot.name}-{snapshot.version}{SUFFIX}"))
    row = {**console.plain(packed), "path": str(packed.path)}
    console.show(row, [row], as_json)


@snapshots.command("unpack")
def snapshot_unpack(
    target: Annotated[
        Path,
        typer.Argument(metavar="FILE|DIR", help="An archive, or a task set with archives."),
    ],
    sha256: Annotated[str, typer.Option(help="Require this SHA-256 of the archive's bytes.")] = "",
    as_json: Json = False,
) -> None:
    """Add snapshots from an archive or a task set to the cache."""
    if target.is_dir() or str(target).startswith("hub:"):
        from ...generators.output.pack_set import unpack_set

        if sha256:
            raise typer.BadParameter("a task set's rows hold the hashes of its archives", param_hint="--sha256")
        with progress_bar("unpack") as progress:
            rows = unpack_set(target, progress=as_updates(progress))
    else:
        from ...environments.snapshots.store.unpack import unpack

        with busy("unpack", f"reading {target}"):
            snapshot = unpack(target, sha256=sha256)
        source = f"{snapshot.name} {snapshot.version}"
        rows = [{"source": source, "digest": snapshot.digest, "path": str(snapshot.path)}]
    console.show({"snapshots": rows}, rows, as_json)


def snapshot_options(recipe: Path | None, flags: Mapping[str, Any]) -> Any:
    """Return snapshot options from a TOML file, overridden by the flags that are not None. Raises SnapshotError."""
    from ...environments.snapshots import SnapshotOptions

    from_file = SnapshotOptions.from_toml(recipe).model_dump(exclude_unset=True) if recipe else {}
    return SnapshotOptions(**{**from_file, **{name: value for name, value in flags.items() if value is not None}})
