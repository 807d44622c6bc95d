"""Running a recipe."""
