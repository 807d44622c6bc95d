"""``etude train`` on a Monarch mesh: ``python monarch_train.py PROCESSES recipe.toml -o out=runs/run``.

Monarch (``torchmonarch``) starts the processes and gives them torchrun's variables. Each of them runs ``etude train``
in a child process, so that signals and exit codes are the usual ones. Replace ``this_host()`` by the hosts of a Monarch
job (``monarch.job``) for several nodes.
"""

import subprocess
import sys

from monarch.actor import Actor, endpoint, this_host
from monarch.spmd import setup_torch_elastic_env


class Trainer(Actor):
    """One process of the run."""

    @endpoint
    def train(self, arguments: list[str]) -> int:
        """Run ``etude train`` with this process's rank and return its exit code."""
        return subprocess.run([sys.executable, "-m", "etude.cli", "train", *arguments], check=False).returncode


def main(processes: int, arguments: list[str]) -> int:
    """Train with this number of processes on this host and return the largest exit code."""
    mesh = this_host().spawn_procs(per_host={"gpus": processes})
    setup_torch_elastic_env(mesh)
    codes = mesh.spawn("trainers", Trainer).train.call(arguments).get()
    return max(code for _, code in codes.items())


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
