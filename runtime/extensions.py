"""Installed extensions: declared in this process, or found by the entry point group ``kpg.extensions``.

Registries hold what an extension defines. A process that meets an unknown name in a plan, such as a worker,
loads all installed extensions and looks again.
"""

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Final, Protocol

from kpg.runtime.errors import OperationalError
from kpg.runtime.types import Type

GROUP: Final = "kpg.extensions"
"""The entry point group. An entry point has the extension's name and refers to the declared object."""


class InstalledExtension(Protocol):
    """An extension, as databases record it."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def types(self) -> tuple[Type, ...]: ...

    @property
    def functions(self) -> frozenset[str]:
        """Names of its functions and aggregates."""


BUNDLED: Final = "kpg.postgres"
"""The extension that comes with kpg. It needs no CREATE EXTENSION."""
_declared: dict[str, InstalledExtension] = {}


def declare(extension: InstalledExtension) -> None:
    """Make an extension available in this process, in place of an earlier one of its name."""
    _declared[extension.name] = extension


def find(name: str) -> InstalledExtension | None:
    """Return an extension that is declared or has an entry point; None if there is none."""
    if name not in _declared:
        for point in entry_points(group=GROUP, name=name):
            point.load()
    return _declared.get(name)


def available_names() -> list[str]:
    """Return the names of all extensions of this process and of its installed packages."""
    return sorted({*_declared, *(point.name for point in entry_points(group=GROUP))})


@cache
def load_all() -> None:
    """Load all installed extensions."""
    for point in entry_points(group=GROUP):
        point.load()


@cache
def load_bundled() -> None:
    """Register what the extension that comes with kpg defines, unless it is left out."""
    try:
        bundled = import_module(BUNDLED)
    except ModuleNotFoundError as error:
        if error.name != BUNDLED:
            raise
        return
    bundled.register()


def is_bundled_loaded() -> bool:
    """Return whether :func:`load_bundled` has been called."""
    return load_bundled.cache_info().currsize > 0


def missing_error(name: str, user: str) -> OperationalError:
    """Return the error for an object that needs an extension that is not installed."""
    return OperationalError(
        f'{user} needs the extension "{name}", which is not installed',
        hint="install its package, or import the module that declares it before you connect",
    )
