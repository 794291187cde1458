"""The texts of a program, with all that they were read with: what it can be made of again."""

from collections.abc import Iterable, Mapping

from kpg.compiler.datalog.check import read_file
from kpg.compiler.datalog.syntax.preprocessor import Setting

Pairs = tuple[tuple[str, str], ...]
Text = tuple[str, str, tuple[str, ...], Pairs, Pairs, Pairs]
"""A text, the name of its file, folders and macros, the files that it included, and where functors are."""


class Reading:
    """Reads files and remembers what was in them; or gives what was remembered."""

    def __init__(self, known: Iterable[tuple[str, str]] | None = None) -> None:
        self._known = None if known is None else dict(known)
        self._read: dict[str, str] = {}

    def __call__(self, path: str) -> str:
        if self._known is None:
            self._read[path] = read_file(path)
            return self._read[path]
        if path not in self._known:
            raise FileNotFoundError(path)
        return self._known[path]

    def text(
        self,
        text: str,
        filename: str | None,
        setting: Setting | None = None,
        functors: Mapping[str, str] | None = None,
    ) -> Text:
        """A text that was read with this; ``functors`` are where they can be imported from."""
        setting, places = setting or Setting(), tuple((functors or {}).items())
        return (text, filename or "", setting.folders, setting.macros, tuple(self._read.items()), places)
