"""Parts of a task statement."""
