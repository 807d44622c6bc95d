"""What a project says of itself: layout, dependencies, licence, test configuration."""
