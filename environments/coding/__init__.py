"""The coding environment: tasks made of repositories."""
