#!/bin/bash
cat > /testbed/solution_patch.diff << '__SOLUTION__'
diff --git a/src/shapes/core.py b/src/shapes/core.py
index 1f2e3d4..5a6b7c8 100644
--- a/src/shapes/core.py
+++ b/src/shapes/core.py
@@ -1,3 +1,3 @@ def f(x):
 def f(x):
-    x = x + 1
+    x = x * 2
     return x
__SOLUTION__
