"""Print the candidates of SWE-smith's procedural modifiers for some files; runs in an environment that has swesmith.

usage: python swesmith_candidates.py ROOT COUNT SEED KIND FILE...

One JSON object per line: the file, the modifier and the file's new text. As swesmith's own command does, each modifier
takes at most COUNT entities that it says it can change. KIND is ``bugs`` (all modifiers) or ``deletion`` (the one that
removes the functions of a class).
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

from swesmith.bug_gen.adapters.python import get_entities_from_file_py
from swesmith.bug_gen.procedural.python import MODIFIERS_PYTHON
from swesmith.bug_gen.utils import apply_code_change

DELETION = "func_pm_class_rm_funcs"


def main() -> None:
    """Print one line per candidate."""
    root, count, seed, kind, files = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5:]
    random.seed(seed)
    entities: list = []
    for file in files:
        get_entities_from_file_py(entities, str(root / file))
    for modifier in MODIFIERS_PYTHON:
        if kind == "deletion" and modifier.name != DELETION:
            continue
        able = [entity for entity in entities if modifier.can_change(entity)]
        for entity in random.sample(able, count) if len(able) > count else able:
            bug = modifier.modify(entity)
            if not bug:
                continue
            path = Path(entity.file_path)
            original = path.read_bytes()
            try:
                apply_code_change(entity, bug)
                line = {"file": str(path.relative_to(root)), "modifier": modifier.name, "text": path.read_text("utf-8")}
            finally:
                path.write_bytes(original)
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
