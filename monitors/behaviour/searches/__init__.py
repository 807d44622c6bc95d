"""Where did the agent look for the answer? Git history, caches, other copies, the machine, networks, tests."""
