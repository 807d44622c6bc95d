"""The worker's program: its modules as text, which a container's Python runs without any file of Etude's."""

from __future__ import annotations

from ..module_texts import LOADER, module_texts

# In the order of their imports, under the names that they have here.
WORKER_MODULES = (
    "kernel.linux",
    "kernel.cgroups",
    "kernel.cpu_limits",
    "kernel.launch",
    "keeper.capture",
    "layers.tree_access",
    "layers.records",
    "layers.lower",
    "layers.touched",
    "layers.reset_tree",
    "layers.changes",
    "layers.save_layer",
    "layers.restore_layer",
    "containers.worker.interfaces",
    "containers.worker.command",
    "containers.worker.serve",
)
PYTHON_OPTIONS = ("-I", "-S", "-B", "-c")
_BOOT = f"{LOADER}load(zip(sys.argv[1].split(), sys.argv[2:])).main()"


def worker_arguments() -> list[str]:
    """Return what follows ``PYTHON_OPTIONS`` in the command line: the loader, the modules' names and their texts."""
    return [_BOOT, " ".join(WORKER_MODULES), *(text for _, text in module_texts(WORKER_MODULES))]
