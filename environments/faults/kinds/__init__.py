"""The built-in faults: calls that are refused, arguments, results and tools that are changed."""
