"""The model that tests and experiments run where the words do not matter: small and quick."""

from pathlib import Path

SMALL_MODEL = Path(__file__).parent / "dragon-7m"
