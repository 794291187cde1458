"""What a body gives: a value, a row of OUT variables, rows, or the row of a trigger."""

from collections.abc import Sequence

from kpg.blocks.evaluating import Evaluator, Given
from kpg.blocks.frame import Frame, Record, Value, row_word, row_words
from kpg.runtime.errors import DataError, ProgrammingError, RaisedError
from kpg.runtime.types import NULL, Kind, Type, record


class Returned:
    """Where what a body returns is kept. ``outs`` are the names of OUT variables."""

    def __init__(self, result: Type, outs: Sequence[str], *, rows: bool, may_end: bool = False) -> None:
        self.result = result
        self.outs = tuple(outs)
        self.gives_rows = rows
        self.may_end = may_end
        self.value: Value | None = None
        self.rows: list[tuple[int, ...]] = []

    @property
    def types(self) -> tuple[Type, ...]:
        """The types of the columns of rows."""
        return self.result.parts if self.result.kind is Kind.RECORD else (self.result,)

    @property
    def _open(self) -> bool:
        """Whether any row will do: RETURNS record."""
        return self.result.name == "record"

    def give(self, evaluator: Evaluator, frame: Frame, text: str) -> None:
        """RETURN."""
        if not text or self.gives_rows:
            if text:
                raise ProgrammingError(
                    "RETURN cannot have a parameter in a function returning a set",
                    hint="use RETURN NEXT or RETURN QUERY",
                )
            self.end(evaluator, frame, returns=True)
            return
        if self.result.name == "void":
            raise ProgrammingError("RETURN cannot have a parameter in a function returning void")
        if self.outs and self.result.name != "trigger":
            raise ProgrammingError("RETURN cannot have a parameter in a function with OUT parameters")
        self.value = self._of(evaluator, frame, text)

    def _of(self, evaluator: Evaluator, frame: Frame, text: str) -> Value:
        if self.result.name == "trigger" or self.result.kind is Kind.RECORD or self._open:
            found = frame.find(text.strip().lower())
            if isinstance(found, Record):
                value = found.whole(evaluator.dictionary)
            else:
                value = evaluator.value(frame, text)
            if self.result.name == "trigger" or self._open:
                return value
            return evaluator.cast(value, self.result)
        return evaluator.value(frame, text, self.result)

    def end(self, evaluator: Evaluator, frame: Frame, *, returns: bool = False) -> None:
        """The body ends without a value."""
        if self.gives_rows:
            return
        if self.outs:
            self.value = self._of_outs(evaluator, frame)
        elif self.result.name == "void":
            self.value = Value(self.result, NULL)
        elif self.result.name == "procedure" or returns:
            self.value = None
        else:
            raise RaisedError("control reached end of function without RETURN", state="2F005")

    def _out_words(self, evaluator: Evaluator, frame: Frame) -> list[int]:
        words = []
        for name in self.outs:
            variable = frame.find(name.lower())
            assert variable is not None
            value = variable.whole(evaluator.dictionary) if isinstance(variable, Record) else variable.value
            words.append(value.word)
        return words

    def _of_outs(self, evaluator: Evaluator, frame: Frame) -> Value:
        words = self._out_words(evaluator, frame)
        if len(words) == 1 and self.result.kind is not Kind.RECORD:
            return Value(self.result, words[0])
        if self.result.name == "procedure":
            types = tuple(_type_of(frame, name) for name in self.outs)
            made = record(list(types), list(self.outs))
            return Value(made, row_word(made, words, evaluator.dictionary))
        return Value(self.result, row_word(self.result, words, evaluator.dictionary))

    def of_query(self, evaluator: Evaluator, given: Given | None) -> None:
        """What a body in SQL gives: the rows of its last statement, or the first one."""
        if self.result.name == "void" or given is None or not given.types:
            self.value = None
            return
        if self.gives_rows:
            self.extend(evaluator, given)
            return
        if not given.words.shape[1]:
            self.value = None
            return
        values = given.row(0)
        if self.result.name == "procedure":
            names = self.outs or given.names
            made = record([one.type for one in values], list(names)[: len(values)])
            self.value = Value(made, row_word(made, [one.word for one in values], evaluator.dictionary))
        elif len(values) == 1 and not (
            self.result.kind is Kind.RECORD and values[0].type.kind is not Kind.RECORD
        ):
            self.value = evaluator.cast(values[0], self.result)
        else:
            made = record([one.type for one in values], list(given.names))
            whole = Value(made, row_word(made, [one.word for one in values], evaluator.dictionary))
            self.value = whole if self._open else evaluator.cast(whole, self.result)

    def add(self, evaluator: Evaluator, frame: Frame, text: str) -> None:
        """RETURN NEXT."""
        if not self.gives_rows:
            raise ProgrammingError("cannot use RETURN NEXT in a non-SETOF function")
        if not text:
            self.rows.append(tuple(self._out_words(evaluator, frame)))
        elif self.result.kind is Kind.RECORD or self._open:
            value = self._of(evaluator, frame, text)
            self.rows.append(tuple(row_words(value, evaluator.dictionary)))
            if self._open:
                self.result = value.type
        else:
            self.rows.append((evaluator.value(frame, text, self.result).word,))

    def extend(self, evaluator: Evaluator, given: Given) -> None:
        """RETURN QUERY."""
        if not self.gives_rows:
            raise ProgrammingError("cannot use RETURN QUERY in a non-SETOF function")
        if self._open:
            self.result = record(list(given.types), list(given.names))
        types = self.types
        if len(types) != len(given.types):
            if len(given.types) == 1 and given.types[0].kind is Kind.RECORD:
                for place in range(given.words.shape[1]):
                    value = evaluator.cast(given.row(place)[0], self.result)
                    self.rows.append(tuple(row_words(value, evaluator.dictionary)))
                return
            raise DataError(
                "structure of query does not match function result type: "
                f"{len(given.types)} columns are given, {len(types)} are declared"
            )
        for place in range(given.words.shape[1]):
            pairs = zip(given.row(place), types, strict=True)
            self.rows.append(tuple(evaluator.cast(value, type_).word for value, type_ in pairs))


def _type_of(frame: Frame, name: str) -> Type:
    variable = frame.find(name.lower())
    assert variable is not None
    return variable.type
