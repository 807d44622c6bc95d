"""Two nodes on Modal: ``modal run --detach modal_train.py``.

Run it beside a checkout of Etude in ``etude/``; put recipe.toml on the volume first:
``modal volume put etude-runs recipe.toml``.
"""

import subprocess

import modal

NODES, GPUS, PORT = 2, 8, 29500
app = modal.App("etude-train")
runs = modal.Volume.from_name("etude-runs", create_if_missing=True)
image = (
    modal.Image.debian_slim(python_version="3.12")
    .add_local_dir("etude", "/etude", copy=True)
    .run_commands("pip install '/etude[train]'")
)


def command(rank: int, addresses: list[str]) -> list[str]:
    """Return the command of one node; the first address is that of the first node."""
    where = ["--nnodes", str(len(addresses)), "--nproc-per-node", str(GPUS), "--node-rank", str(rank)]
    rendezvous = ["--master-addr", addresses[0], "--master-port", str(PORT), "--shutdown-timeout", "3600"]
    return ["torchrun", *where, *rendezvous, "-m", "etude.cli", "train", "/runs/recipe.toml", "-o", "out=/runs/run"]


@app.function(image=image, gpu=f"H100:{GPUS}", volumes={"/runs": runs}, timeout=24 * 3600)
@modal.clustered(size=NODES, rdma=True)
def train() -> None:
    """Train; Modal runs this in each container of the cluster."""
    cluster = modal.Cluster.from_context()
    subprocess.run(command(cluster.container_rank(), cluster.container_ips()), check=True)
    runs.commit()


@app.local_entrypoint()
def main() -> None:
    train.remote()
