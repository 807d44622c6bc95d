"""Selection: in which split a task of a set is, and which benchmark it may repeat.

``splits`` draws the split of a repository, ``benchmarks`` names the repositories of public benchmarks (listed in
``benchmark_repositories.toml``), ``overlap`` compares the texts of tasks with rows of a benchmark, and ``apply`` does
all of this to the rows of ``etude generate``.
"""
