"""The files of examples/launch, as a program reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def launch_folder(root: Path) -> Path:
    """Return the folder with the files."""
    return root / "examples" / "launch"


def kubernetes_objects(root: Path) -> dict[str, Any]:
    """Return the manifest's objects by kind."""
    documents = list(yaml.safe_load_all((launch_folder(root) / "kubernetes.yaml").read_text()))
    assert [document["kind"] for document in documents] == ["Service", "Job"]
    return {document["kind"]: document for document in documents}
