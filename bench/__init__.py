"""Experiments: `python -m bench.NAME` finds each, wherever in this package it lies."""

from pathlib import Path

__path__ += [str(Path(__file__).parent / folder) for folder in ("experiments", "tools")]
