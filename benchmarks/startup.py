"""Start-up time of the command line: medians of interleaved runs, so that a busy moment affects all commands alike.

Run it anywhere: ``python benchmarks/startup.py [--runs N] [--json]``. Milliseconds of wall time per process.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from etude.benchmarks.output import parser_of, show
from etude.cli import app as cli

BARE = """
import typer

app = typer.Typer()
for name in {names!r}:
    def command(x: int = 1) -> None:
        "Does something."
    app.command(name)(command)
app()
"""


def commands(folder: Path) -> dict[str, list[str]]:
    """Return the timed commands: the interpreter alone, Etude, and a bare typer app with as many commands."""
    names = [command.name or getattr(command.callback, "__name__", "") for command in cli.app.registered_commands]
    bare = folder / "bare.py"
    bare.write_text(BARE.format(names=names))
    return {
        "python -c pass": [sys.executable, "-c", "pass"],
        "import etude": [sys.executable, "-c", "import etude"],
        f"bare typer app with {len(names)} commands --help": [sys.executable, str(bare), "--help"],
        "etude --help": [
            sys.executable,
            "-c",
            "import sys; from etude.cli.app import main; main(['--help'])",
        ],
    }


def measure(runs: int) -> dict[str, float]:
    """Return the median milliseconds per command; one untimed run of each warms the file cache."""
    with tempfile.TemporaryDirectory() as folder:
        timed = commands(Path(folder))
        times: dict[str, list[float]] = {name: [] for name in timed}
        for turn in range(runs + 1):
            for name, command in timed.items():
                started = time.perf_counter()
                subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
                if turn:
                    times[name].append((time.perf_counter() - started) * 1000)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    """Run the benchmark."""
    options = parser_of(__doc__, runs=20).parse_args()
    medians = measure(options.runs)
    show(medians, options.json, lambda name, value: f"{value:8.1f} ms  {name}")
    if options.json:
        return
    nothing, face, bare, ours = medians.values()
    print(f"import etude: {face - nothing:+.1f} ms over python -c pass;  etude --help: {ours / bare:.2f}x the bare app")


if __name__ == "__main__":
    main()
