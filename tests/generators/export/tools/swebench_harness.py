"""swebench's own loader, harness and report over exported rows; runs where swebench is installed.

python swebench_harness.py ROWS.jsonl IMAGE: IMAGE is that of the first row. Prints what swebench resolved.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import docker
from swebench.harness.constants import MAP_REPO_TO_EXT, MAP_REPO_VERSION_TO_SPECS
from swebench.harness.log_parsers import MAP_REPO_TO_PARSER
from swebench.harness.log_parsers.python import parse_log_pytest
from swebench.harness.run_evaluation import run_instance
from swebench.harness.test_spec.test_spec import make_test_spec
from swebench.harness.utils import load_swebench_dataset

HARMLESS = """diff --git a/NOTES b/NOTES
new file mode 100644
--- /dev/null
+++ b/NOTES
@@ -0,0 +1 @@
+nothing
"""


def main() -> None:
    row = load_swebench_dataset(sys.argv[1])[0]
    # swebench knows the repositories of its own sets; others are registered by name and version.
    MAP_REPO_TO_PARSER[row["repo"]] = parse_log_pytest
    MAP_REPO_TO_EXT[row["repo"]] = "py"
    commands = {"python": "3.11", "install": "true", "test_cmd": "pytest -rA"}
    MAP_REPO_VERSION_TO_SPECS[row["repo"]] = {row["version"]: commands}
    spec = make_test_spec(row, namespace="localhost")
    spec = replace(spec, eval_script_list=row["eval_script"].splitlines()[2:])
    client = docker.from_env()
    client.images.get(sys.argv[2]).tag(spec.instance_image_key)
    resolved = {}
    for name, patch in (("oracle", row["patch"]), ("harmless", HARMLESS)):
        prediction = {"instance_id": row["instance_id"], "model_name_or_path": name, "model_patch": patch}
        resolved[name] = run_instance(spec, prediction, False, False, client, name, 300)
    client.images.remove(spec.instance_image_key)
    print(json.dumps(resolved))


if __name__ == "__main__":
    main()
