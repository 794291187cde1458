"""Optional packages: a missing one is an error that says what to install."""

from collections.abc import Iterator
from contextlib import contextmanager

from kpg.runtime.errors import OperationalError


@contextmanager
def needing(extra: str, *packages: str) -> Iterator[None]:
    """Imports in the block may fail for want of ``packages``, which the named extra brings."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in packages:
            raise
        raise OperationalError(
            f"this needs the package {error.name}", hint=f'pip install "kpg[{extra}]"'
        ) from error
