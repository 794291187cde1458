"""Work that a thread does while others go on, files above all."""

import threading
from collections.abc import Callable


class Ahead:
    """Work under way, from when this is made."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(work,), name="kpg files", daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:
            self._error = error

    @property
    def done(self) -> bool:
        """Whether it is done, well or not."""
        return not self._thread.is_alive()

    def wait(self) -> BaseException | None:
        """When the work is done, what it ended in, if not well."""
        self._thread.join()
        return self._error
