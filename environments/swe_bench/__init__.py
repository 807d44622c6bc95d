"""SWE-bench and its relatives as an environment: real issues of real repositories, graded by the fix's own tests."""
