"""Static features of a task: counted from its row, and stored ones where the row has them."""

from __future__ import annotations

from etude.environments.drill.tasks import DrillTasks
from etude.environments.tasks.static_features import task_features
from etude.models import IMPOSSIBLE, GeneratorRef, Task

PATCH = """\
--- a/one.py
+++ b/one.py
@@ -1,2 +1,4 @@
 import os
+
+# a comment
+value = 1
@@ -9 +11 @@
-old()
+new()
--- a/two.py
+++ b/two.py
@@ -1 +1,2 @@
 x = 1
+y = 2
"""


def row(**features):
    generator = GeneratorRef(name="fd_function", version="1", seed=0, knobs={"mode": "remove"})
    return Task(
        task_id="t",
        generator=generator,
        problem_statement="Bring it back.",
        patch=PATCH,
        FAIL_TO_PASS=["test_a.py::test_a", "test_a.py::test_b"],
        features=features,
    )


def test_a_row_without_stored_features_is_counted():
    features = task_features(row())
    assert (features.lines, features.files, features.hunks, features.tests, features.words) == (3, 2, 3, 2, 3)
    assert (features.generator, features.knobs) == ("fd_function", {"mode": "remove"})


def test_stored_features_are_taken_and_texts_are_labels():
    features = task_features(row(loc_removed=9, closure=4, kind="method", **{IMPOSSIBLE: True}))
    assert (features.lines, features.closure, features.impossible) == (9, 4, True)
    assert features.labels == {"kind": "method"}


def test_a_drill_has_a_level_and_no_lines():
    features = task_features(DrillTasks(["chain"], level=3).get_task("train", 0))
    assert (features.environment, features.level, features.lines, features.files) == ("drill", 3, 0, 0)
