"""Server of the echo environment that ``openenv init`` writes, for as many sessions as the benchmark opens.

usage: python openenv_echo.py FOLDER PORT SESSIONS
"""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import uvicorn

NAME = "echo_bench"


def main() -> None:
    """Write the environment to FOLDER and serve it on 127.0.0.1."""
    folder, port, sessions = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    command = [str(Path(sys.executable).with_name("openenv")), "init", NAME, "--output-dir", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    app = folder / NAME / "server" / "app.py"
    text = app.read_text()
    assert text.count("max_concurrent_envs=1,") == 1, "the template has changed"
    app.write_text(text.replace("max_concurrent_envs=1,", f"max_concurrent_envs={sessions},"))
    sys.path.insert(0, str(folder))
    logging.disable(logging.WARNING)
    uvicorn.run(f"{NAME}.server.app:app", host="127.0.0.1", port=port, log_level="error")


if __name__ == "__main__":
    main()
