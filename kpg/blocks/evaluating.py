"""Expressions and statements of SQL within a body, over its variables."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kpg.blocks.frame import Frame, Record, Value, Variable, row_words, word_of
from kpg.compiler.sql import statements as ast
from kpg.compiler.sql import variables
from kpg.compiler.sql.blocks.tree import Dynamic
from kpg.compiler.sql.variables import Name
from kpg.compiler.sql.volatile import MENTIONS
from kpg.engine.engine import Engine
from kpg.queries.reading import Decoded
from kpg.result import Affected, Result
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.plan import Mfp
from kpg.runtime.records import dataclass
from kpg.runtime.scalar import Call, Column, Scalar
from kpg.runtime.types import BOOLEAN, INTEGER, NULL, TEXT, Kind, Type
from kpg.runtime.values import codec_of

if TYPE_CHECKING:
    from kpg.statements.cursors import Cursor

Words = NDArray[np.int64]
Known = tuple[Mfp, Type] | None


@dataclass(frozen=True, slots=True)
class Given:
    """What a statement gives: rows, if it gives any, and how many it gave or changed."""

    names: tuple[str, ...]
    types: tuple[Type, ...]
    words: Words
    count: int

    def row(self, place: int) -> list[Value]:
        """One row."""
        column = self.words[:, place].tolist()
        return [Value(type_, word) for type_, word in zip(self.types, column, strict=True)]


NOTHING = Given((), (), np.empty((0, 0), np.int64), 0)


class Evaluator:
    """Computes over the variables of frames. What it compiles is good until a definition changes."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.dictionary = engine.executor.dictionary
        self.portals = 0
        """How many cursors without a name have been opened."""
        self._compiled: dict[object, Known] = {}
        self._version = -1

    def value(self, frame: Frame, text: str, target: Type | None = None) -> Value:
        """The value of an expression, of a type if one is wanted."""
        if variables.expression_of(text) is not None and not MENTIONS.search(text):
            parts = [(name, self._value_of(frame, name)) for name in variables.names_in(text)]
            found = {name: value for name, value in parts if value is not None}
            if len(found) == len(parts):
                computed = self._computed(text, found, target)
                if computed is not None:
                    return computed
        rows = self.rows(frame, Dynamic(f"SELECT {text}"))
        if not rows.words.shape[1]:
            return Value(target or TEXT, NULL)
        if rows.words.shape[1] > 1:
            raise ProgrammingError(f"query returned more than one row: {text}")
        if len(rows.types) > 1:
            raise ProgrammingError(f"query returned {len(rows.types)} columns: {text}")
        return self.cast(rows.row(0)[0], target)

    def truth(self, frame: Frame, text: str) -> bool:
        """Whether a condition is true."""
        return self.value(frame, text, BOOLEAN).word == 1

    def cast(self, value: Value, target: Type | None) -> Value:
        """A value as one of another type."""
        if target is None or value.type == target:
            return value
        if value.type.kind is Kind.RECORD and target.kind is Kind.RECORD:
            return self._row_cast(value, target)
        if value.word == NULL:
            return Value(target, NULL)
        return self.evaluate(self._made(("cast", value.type, target)), [value.word], target)

    def text(self, value: Value) -> str | None:
        """A value as text, as it is shown."""
        if value.word == NULL:
            return None
        if value.type.kind is Kind.BOOLEAN:
            return "t" if value.word else "f"
        if value.type.is_text:
            return self.dictionary.get(value.word)
        codec = codec_of(value.type)
        if value.type.is_interned:
            return str(codec.show(codec.decode(self.dictionary.get(value.word))))
        return str(self.dictionary.get(self.cast(value, TEXT).word))

    def of_text(self, text: str | None, type_: Type = TEXT) -> Value:
        """A text as a value."""
        if text is None:
            return Value(type_, NULL)
        return self.cast(Value(TEXT, self.dictionary.code(text)), type_)

    def evaluate(self, mfp: Mfp, words: Sequence[int], type_: Type) -> Value:
        """An expression over words."""
        row = np.array([list(words) or [0]], np.int64).T
        results, _ = self.engine.executor.evaluate(mfp, np.ascontiguousarray(row))
        return Value(type_, int(results[0, 0]))

    def with_element(self, array: Value, element: Value, subscripts: Sequence[Value]) -> Value:
        """An array with another element."""
        mfp = self._made(("element", array.type, element.type, len(subscripts)))
        return self.evaluate(mfp, [array.word, element.word, *(one.word for one in subscripts)], array.type)

    def rows(self, frame: Frame, query: Dynamic) -> Given:
        """The rows of a query."""
        return self.run(frame, query)

    def run(self, frame: Frame, statement: Dynamic) -> Given:
        """Run a statement, or the text that an expression gives."""
        outcome = self._outcome(frame, statement)
        if isinstance(outcome, Affected):
            return Given((), (), np.empty((0, 0), np.int64), outcome.affected or 0)
        if not isinstance(outcome, Result):
            return NOTHING
        given = self.given(outcome)
        return given if outcome.affected is None else replace(given, count=outcome.affected)

    def _outcome(self, frame: Frame, statement: Dynamic) -> object:
        from kpg.statements.statements import execute

        if self.engine.executor.stepping:
            raise ProgrammingError("a function that a view calls cannot run statements")
        parsed = self.parsed(frame, statement)
        if isinstance(parsed, ast.Update | ast.Delete) and parsed.cursor:
            variable = frame.find(parsed.cursor.lower())
            if isinstance(variable, Variable) and variable.type.is_text and variable.value.word != NULL:
                parsed = replace(parsed, cursor=self.dictionary.get(variable.value.word))
        return execute(self.engine, parsed)

    def parsed(self, frame: Frame, statement: Dynamic) -> ast.Statement:
        """A statement with the values of variables."""
        if statement.using is None:
            return variables.statement_of(statement.text, self._finder(frame), self._fielder(frame))
        text = self.value(frame, statement.text, TEXT)
        if text.word == NULL:
            raise ProgrammingError("query string argument of EXECUTE is null")
        given: dict[Name, Scalar] = {
            (f"${place}",): self.value(frame, one).literal(self.dictionary)
            for place, one in enumerate(statement.using, 1)
        }
        return variables.statement_of(self.dictionary.get(text.word), given.get, lambda name: None)

    def opened(self, frame: Frame, name: str, query: Dynamic) -> "Cursor":
        """A cursor of a query."""
        from kpg.statements.cursors import opened

        parsed = self.parsed(frame, query)
        if not isinstance(parsed, ast.Select):
            raise ProgrammingError("cannot open a cursor of anything but a query")
        return opened(self.engine, name, parsed)

    def given(self, result: Result) -> Given:
        """A result's rows."""
        words = self.words(result)
        return Given(tuple(result.columns), tuple(result.types), words, words.shape[1])

    def words(self, result: Result) -> Words:
        """A result's rows as words, by columns."""
        contents = result.contents
        if isinstance(contents, Decoded):
            return contents.words[: len(result.columns)]
        rows = [
            [self._encoded(value, type_) for value, type_ in zip(row, result.types, strict=True)]
            for row in result.part()
        ]
        return np.array(rows, np.int64).T.reshape(len(result.types), len(rows))

    def _encoded(self, value: Any, type_: Type) -> int:
        return NULL if value is None else word_of(codec_of(type_).from_python(value), type_, self.dictionary)

    def _row_cast(self, value: Value, target: Type) -> Value:
        from kpg.blocks.frame import row_word

        if value.word == NULL:
            return Value(target, NULL)
        words = row_words(value, self.dictionary)
        if len(words) != len(target.parts):
            raise ProgrammingError(f"a row of {len(words)} values is no {target}")
        parts = [
            self.cast(Value(type_, word), wanted).word
            for type_, word, wanted in zip(value.type.parts, words, target.parts, strict=True)
        ]
        return Value(target, row_word(target, parts, self.dictionary))

    # Names

    def _value_of(self, frame: Frame, name: Name) -> Value | None:
        found = frame.resolve(name)
        if found is None:
            return None
        variable, fields = found
        if isinstance(variable, Record):
            if not fields:
                return variable.whole(self.dictionary)
            value = variable.field(fields[0])
            fields = fields[1:]
        else:
            value = variable.value
        for field in fields:
            labels = [label.lower() for label in value.type.labels]
            if value.type.kind is not Kind.RECORD or field not in labels:
                return None
            place = labels.index(field)
            value = Value(value.type.parts[place], row_words(value, self.dictionary)[place])
        return value

    def _finder(self, frame: Frame) -> variables.Find:
        def find(name: Name) -> Scalar | None:
            value = self._value_of(frame, name)
            return None if value is None else value.literal(self.dictionary)

        return find

    def _fielder(self, frame: Frame) -> variables.Fields:
        def fields(name: Name) -> list[tuple[str, Scalar]] | None:
            found = frame.resolve(name)
            if found is None or found[1]:
                return None
            variable = found[0]
            if isinstance(variable, Record):
                pairs = zip(variable.types, variable.words, strict=True)
                values = [Value(type_, word) for type_, word in pairs]
                names: Sequence[str] = variable.names
            elif variable.type.kind is Kind.RECORD:
                words = row_words(variable.value, self.dictionary)
                values = [Value(t, word) for t, word in zip(variable.type.parts, words, strict=True)]
                names = variable.type.labels
            else:
                return None
            return [(one, value.literal(self.dictionary)) for one, value in zip(names, values, strict=True)]

        return fields

    # Compiled expressions

    def _computed(self, text: str, found: dict[Name, Value], target: Type | None) -> Value | None:
        catalog = self.engine.catalog
        types = tuple(value.type for value in found.values())
        key = (text, types, target, catalog.path, catalog.asker.user)
        if self._version != catalog.version:
            self._version = catalog.version
            self._compiled.clear()
        if key in self._compiled:
            known = self._compiled[key]
        else:
            columns: dict[Name, Scalar] = {
                name: Column(place, value.type) for place, (name, value) in enumerate(found.items())
            }
            before = catalog.consulted.times
            known = variables.bound(text, columns, catalog, target)
            if catalog.consulted.times == before:
                self._compiled[key] = known
        if known is None:
            return None
        return self.evaluate(known[0], [value.word for value in found.values()], known[1])

    def _made(self, key: tuple[Any, ...]) -> Mfp:
        known = self._compiled.get(key)
        if known is None:
            if key[0] == "cast":
                mfp = variables.cast_of(key[1], key[2])
            else:
                places = tuple(Column(2 + place, INTEGER) for place in range(key[3]))
                call = Call("$with_element", (Column(0, key[1]), Column(1, key[2]), *places), key[1])
                mfp = Mfp((), (call,))
            known = self._compiled[key] = (mfp, key[1])
        return known[0]
