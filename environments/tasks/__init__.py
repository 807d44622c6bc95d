"""Task sets, and the trees that tasks are played and graded on."""
