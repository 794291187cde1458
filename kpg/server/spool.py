"""A view's contents on their way to one subscriber: in memory if they are few, else in a nameless file.

They are written at once, as they are at one epoch, and read as fast as the client takes them. So contents
of any size can be subscribed to, and a client that is slow costs room on the disk and not in memory.
"""

import marshal
from collections import deque
from collections.abc import Iterable
from tempfile import SpooledTemporaryFile
from typing import Any, Final

from kpg.runtime.errors import OperationalError

IN_MEMORY: Final = 1 << 20
"""Bytes from which a file is made: what a connection takes in one go."""


class Spool:
    """Portions, each of anything made of bytes, texts, numbers, tuples and lists.

    Written on the engine's thread when this is made, read by one other thread. OperationalError if the disk
    lacks room for them.
    """

    def __init__(self, portions: Iterable[Any]) -> None:
        self._file = SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 (closed once it is read)
        self._sizes = deque[int]()
        try:
            for portion in portions:
                self._sizes.append(self._file.write(marshal.dumps(portion)))
            self._file.seek(0)
        except OSError as error:
            self._file.close()
            raise OperationalError(
                f"the contents of the view could not be kept for the client: {error.strerror or error}",
                hint="make room where temporary files are, or subscribe without the snapshot",
            ) from error

    def next(self) -> Any:
        """The next portion; None if there is none."""
        if not self._sizes:
            self._file.close()
            return None
        return marshal.loads(self._file.read(self._sizes.popleft()))

    def __del__(self) -> None:
        """Nobody takes the rest: the client has gone."""
        self._file.close()
