"""When the epochs of a log were, and since when what is known of tables is of them as they are now."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from kpg.durable.state import PAST, Changes, State

if TYPE_CHECKING:
    from kpg.engine.engine import Engine

DEFINING: Final = frozenset(("view", "function", "routine", "type", "program", "index"))


class Times:
    """What the commits of a log say of it, in their order."""

    def __init__(self) -> None:
        self.defined = -1
        """The place of the last commit that defined something, new tables apart."""
        self._moments: list[tuple[int, int]] = []
        self._facts: dict[int, object] = {}
        self._begun: dict[int, int] = {}

    def note(self, epoch: int, moment: int, before: State, found: Changes, place: int) -> None:
        """Take note of a commit, what the state was before and what is other since."""
        self._moments.append((epoch, moment))
        for key in (*found.gone, *(key for key, _ in found.now)):
            if key[:2] == ("other", "inherits") and ("table", key[3]) in before:
                parent = before.get(("table", key[2]))
                if parent is not None:
                    self._begun[parent[0]] = epoch
        for key, value in found.now:
            if key[0] in DEFINING:
                self.defined = place
            elif key[0] == "table":
                self._note_table(value, before.get(key), epoch, place)

    def _note_table(self, entry: Any, known: Any, epoch: int, place: int) -> None:
        number = entry[0]
        if known is not None and known[0] == number:
            self._facts.setdefault(number, _facts(known))
        if number in self._facts:
            self.defined = place
        if self._facts.get(number) != _facts(entry):
            self._facts[number] = _facts(entry)
            self._begun[number] = epoch

    def tell(self, engine: "Engine", tables: Mapping[int, str]) -> None:
        """Have the past of a database that is opened be what it was, if one is kept."""
        told = engine.extras.pop(PAST, None)
        if engine.past is None:
            engine.executor.drop_past()
            return
        for number, epoch in self._begun.items():
            if number in tables:
                engine.executor.known_from(tables[number], epoch)
        engine.past.learn(told if isinstance(told, bytes) else None, self._moments)


def _facts(entry: Any) -> object:
    """What plans take for true of the rows of a table."""
    schema = entry[1].schema
    return schema.primary_key, schema.types, tuple(column.nullable for column in schema.columns)
