"""Experiments and tools: `python -m bench.NAME` runs one, in whichever folder here it is."""

from pathlib import Path

__path__ += [str(Path(__file__).parent / folder) for folder in ("experiments", "tools")]
