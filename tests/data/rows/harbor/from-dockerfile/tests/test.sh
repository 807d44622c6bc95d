#!/bin/bash
cd /testbed
git apply -v - <<'EOF_1'
diff --git a/tests/test_core.py b/tests/test_core.py
--- a/tests/test_core.py
+++ b/tests/test_core.py
@@ -4,3 +4,6 @@ import pytest
 
 def test_old():
     assert True
+
+def test_new():
+    assert 1
EOF_1
pytest tests/test_core.py
