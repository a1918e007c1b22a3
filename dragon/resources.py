"""Where that lies which is no code: beside the packages in a checkout, else where pip put it."""

from __future__ import annotations

import sysconfig
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_INSTALLED = Path("share", "dragon")


def resource(name: str) -> Path:
    """The folder of a name: `static`, `alembic` or `models`."""
    if (_ROOT / "pyproject.toml").exists():
        return _ROOT / name
    user = sysconfig.get_preferred_scheme("user")
    prefixes = (sysconfig.get_path("data"), sysconfig.get_path("data", user))
    places = [Path(prefix) / _INSTALLED / name for prefix in prefixes]
    return next(filter(Path.exists, places), places[0])
