"""A plugin of pytest that runs tests without ``kpg.postgres``: ``pytest -p tests.without_postgres ...``."""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

ABSENT = "kpg.postgres"


class Absence(MetaPathFinder):
    """Finds no module of an absent package."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == ABSENT or name.startswith(f"{ABSENT}."):
            raise ModuleNotFoundError(f"No module named {name!r}", name=ABSENT)
        return None


sys.meta_path.insert(0, Absence())
