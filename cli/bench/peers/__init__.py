"""Scripts that other projects' interpreters run; nothing here is imported by Etude."""
