"""What a session has prepared, by PREPARE and by its client's messages: no two have one name."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from kpg.compiler.sql.parse.statements import Prepare
from kpg.runtime.errors import ProgrammingError, Span

if TYPE_CHECKING:
    from kpg.engine.engine import Engine


class Parsed(Protocol):
    """A statement that came by a message."""

    @property
    def text(self) -> str:
        """Its text."""

    def declared(self, engine: "Engine") -> tuple[str, ...]:
        """The types of its parameters, as texts."""


class PreparedStatements(dict[str, Prepare]):
    """Those of PREPARE; ``parsed`` are the others, of which that without a name is the protocol's alone."""

    def __init__(self) -> None:
        super().__init__()
        self.parsed: dict[str, Any] = {}
        """Each is a :class:`Parsed`."""

    def find(self, engine: "Engine", name: str) -> Prepare | None:
        """The statement of a name, as PREPARE would have made it."""
        found = self.get(name)
        if found is not None or name not in self.parsed:
            return found
        one: Parsed = self.parsed[name]
        return Prepare(name, one.declared(engine), one.text, Span(one.text, 0, len(one.text)))

    def check_free(self, name: str, span: Span | None = None) -> None:
        """ProgrammingError if a statement has that name."""
        if name in self or name in self.parsed:
            error = ProgrammingError(f'prepared statement "{name}" already exists', span=span)
            error.sqlstate = "42P05"
            raise error

    def drop(self, name: str) -> bool:
        """Forget a statement; whether there was one."""
        return (self.pop(name, None) or self.parsed.pop(name, None)) is not None

    def clear(self) -> None:
        """Forget all that have names."""
        super().clear()
        for name in [one for one in self.parsed if one]:
            del self.parsed[name]

    def all(self, engine: "Engine") -> Iterator[tuple[Prepare, bool]]:
        """All that have names, and whether by PREPARE."""
        yield from ((one, True) for one in self.values())
        for name in sorted(filter(None, self.parsed)):
            found = self.find(engine, name)
            assert found is not None
            yield found, False
