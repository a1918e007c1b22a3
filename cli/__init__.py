"""The `dragon` program: the only package that knows both services."""
