"""The variables of a body that runs: words with their types."""

from collections.abc import Sequence
from typing import Any

from kpg.compiler.sql.variables import Name
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import DataError, ProgrammingError
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Literal
from kpg.runtime.types import NULL, Kind, Type, record
from kpg.runtime.values import codec_of


@dataclass(frozen=True, slots=True)
class Value:
    """A word and its type."""

    type: Type
    word: int

    def literal(self, dictionary: Dictionary) -> Literal:
        """It as a constant of SQL."""
        if self.word == NULL:
            return Literal(None, self.type)
        return Literal(dictionary.get(self.word) if self.type.is_interned else self.word, self.type)


class Variable:
    """A variable of one value."""

    def __init__(self, name: str, type_: Type, word: int = NULL) -> None:
        self.name = name
        self.value = Value(type_, word)
        self.constant = False
        self.required = False
        self.digits = -1

    @property
    def type(self) -> Type:
        """Its type."""
        return self.value.type

    def check(self) -> None:
        """DataError if it is NULL and must not be."""
        if self.required and self.value.word == NULL:
            raise DataError(f'NULL cannot be assigned to variable "{self.name}" declared NOT NULL')


class Record:
    """A variable of a row; of a declared type its columns stay, otherwise it has those of its last row."""

    def __init__(self, name: str, names: Sequence[str] = (), types: Sequence[Type] = ()) -> None:
        self.name = name
        self.declared = bool(names)
        self.given = bool(names)
        self.names = tuple(names)
        self.types = tuple(types)
        self.words: list[int] = [NULL] * len(self.types)
        self.missing = False
        """Whether there is no row: NEW of a DELETE, an OLD that is NULL."""

    def place(self, field: str) -> int:
        """Where a field is; ProgrammingError if there is none."""
        if not self.given:
            raise ProgrammingError(
                f'record "{self.name}" is not assigned yet',
                hint="its columns are those of the row that it gets",
            )
        known = [name.lower() for name in self.names]
        if field not in known:
            raise ProgrammingError(f'record "{self.name}" has no field "{field}"')
        return known.index(field)

    def field(self, name: str) -> Value:
        """One of its values."""
        place = self.place(name)
        return Value(self.types[place], self.words[place])

    def assign(self, names: Sequence[str], types: Sequence[Type], words: Sequence[int]) -> None:
        """Let it be a row, whose types are its own if it is declared."""
        if not self.declared:
            self.names, self.types, self.given = tuple(names), tuple(types), True
        self.words = list(words)

    @property
    def type(self) -> Type:
        """The type of the row as one value."""
        return record(list(self.types), list(self.names))

    def whole(self, dictionary: Dictionary) -> Value:
        """The row as one value."""
        if not self.given or self.missing:
            return Value(self.type, NULL)
        return Value(self.type, row_word(self.type, self.words, dictionary))


def row_word(type_: Type, words: Sequence[int], dictionary: Dictionary) -> int:
    """The word of a row of words."""
    items = [plain_of(Value(part, word), dictionary) for part, word in zip(type_.parts, words, strict=True)]
    return dictionary.code(codec_of(type_).encode(tuple(items)))


def row_words(value: Value, dictionary: Dictionary) -> list[int]:
    """The words of a row's fields; NULLs of none."""
    if value.word == NULL:
        return [NULL] * len(value.type.parts)
    items: Any = plain_of(value, dictionary)
    return [word_of(item, part, dictionary) for item, part in zip(items, value.type.parts, strict=True)]


def plain_of(value: Value, dictionary: Dictionary) -> Any:
    """A value as functions of values take it; None for NULL."""
    from kpg.runtime.types import word_to_float

    if value.word == NULL:
        return None
    if value.type.is_interned:
        text = dictionary.get(value.word)
        return text if value.type.is_text else codec_of(value.type).decode(text)
    if value.type.is_float:
        return word_to_float(value.word)
    return bool(value.word) if value.type.kind is Kind.BOOLEAN else value.word


def word_of(value: Any, type_: Type, dictionary: Dictionary) -> int:
    """The word of such a value."""
    from kpg.runtime.types import float_to_word

    if value is None:
        return NULL
    if type_.is_interned:
        return dictionary.code(value if type_.is_text else codec_of(type_).encode(value))
    return float_to_word(float(value)) if type_.is_float else int(value)


class Frame:
    """The names that are known where a statement of a body stands, inner blocks' first."""

    def __init__(self, label: str) -> None:
        self._scopes: list[tuple[str, dict[str, Variable | Record]]] = [(label.lower(), {})]
        self.cursors: dict[str, Any] = {}

    def enter(self, label: str) -> None:
        """A block begins."""
        self._scopes.append((label.lower(), {}))

    @property
    def depth(self) -> int:
        """How many blocks are open."""
        return len(self._scopes)

    def leave_to(self, depth: int) -> None:
        """Blocks end, but for so many."""
        del self._scopes[depth:]

    def declare(self, name: str, variable: "Variable | Record") -> None:
        """Make a name known in the innermost block."""
        self._scopes[-1][1][name.lower()] = variable

    def find(self, name: str) -> "Variable | Record | None":
        """The variable of a name."""
        return next((known[name] for _, known in reversed(self._scopes) if name in known), None)

    def resolve(self, name: Name) -> "tuple[Variable | Record, Name] | None":
        """The variable that a name means, and what is left of it: fields."""
        found = self.find(name[0])
        if found is not None:
            return found, name[1:]
        if len(name) > 1:
            for label, known in reversed(self._scopes):
                if label == name[0] and name[1] in known:
                    return known[name[1]], name[2:]
        return None
