"""Experiments: one script each, the last line of output is one JSON object."""
