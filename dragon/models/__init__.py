"""The embedded models, packaged with the code."""

from importlib.resources import files
from pathlib import Path

_FOLDER = Path(str(files("dragon.models")))
EMBEDDED_MODEL = _FOLDER / "dragon-7m"
EMBEDDED_RERANKER = _FOLDER / "reranker"
