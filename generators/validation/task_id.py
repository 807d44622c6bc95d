"""Names of tasks: readable, unique, the same wherever they are made."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING

from ..base import Candidate

if TYPE_CHECKING:
    from ...environments.snapshots import Snapshot


def candidate_key(snapshot: Snapshot, candidate: Candidate) -> str:
    """What a candidate is, as a digest: the Snapshot, the generator with its knobs, the entity."""
    reference = candidate.generator
    identity = [snapshot.digest, reference.name, reference.version, reference.seed, reference.knobs, candidate.entity]
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def task_id(snapshot: Snapshot, candidate: Candidate) -> str:
    """``package-version.generator.entity-hash``; a file name on every system."""
    entity = re.sub(r"\W+", "_", candidate.entity.rsplit("::", 1)[-1]).strip("_")
    stem = re.sub(r"[^\w.-]+", "_", f"{snapshot.name}-{snapshot.version}")
    return f"{stem}.{candidate.generator.name}.{entity}-{candidate_key(snapshot, candidate)[:8]}"
