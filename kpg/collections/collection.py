"""``Collection``: a multiset of rows that changes over time, and the operators on it.

``Arranged`` is a collection with a shared index. ``LoopScope`` and ``Variable`` define collections
recursively: one iteration per round, until a fixed point.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from kpg.collections import operators
from kpg.collections.expression import (
    ColumnType,
    Names,
    RowFunction,
    SymbolicRow,
    as_columns,
    as_condition,
    coerced,
    comparable,
    distinct,
    listed,
    place_of,
    schema_of,
)
from kpg.collections.operators import Index, Operator
from kpg.collections.outputs import (
    Callback,
    Captured,
    ColumnsCallback,
    ColumnsInspection,
    Inspection,
    Output,
    OutputFlow,
    Probe,
)
from kpg.collections.rows import Rows, aligned, plain, united
from kpg.collections.term import EnterTerm, LeaveTerm, Level, LoopTerm, Term, VariableTerm, enclosing
from kpg.collections.term import variable as variable_term
from kpg.compiler.algebra.scalars import can_be_null
from kpg.runtime import plan
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.errors import InterfaceError, ProgrammingError
from kpg.runtime.monitor import synchronized
from kpg.runtime.plan import Ref, user
from kpg.runtime.plan.user import Kind
from kpg.runtime.scalar import Column
from kpg.runtime.types import BIGINT, Type

if TYPE_CHECKING:
    from kpg.session.engine import Engine


JoinKey = Names | dict[str, str] | None


class Flow(OutputFlow, Protocol):
    """The dataflow of a collection: it keeps what is installed, and the loops that are being written."""

    @property
    def engine(self) -> "Engine":
        """The engine of the dataflow's database."""

    @property
    def dictionary(self) -> Dictionary:
        """The database's strings."""

    def check(self) -> None:
        """Raise InterfaceError if the dataflow was dropped, or its database closed."""

    def closing(self) -> None:
        """Retire what a closed input has brought to its end, now or with the next commit."""

    def arrange(self, index: Index, key: tuple[str, ...], rows: Rows) -> "Arranged":
        """Keep an arrangement of rows; inside a loop it lives as the loop does."""

    def export(self, name: str, collection: "Collection") -> "Arranged":
        """Keep a collection as a view."""

    def inspect(self, rows: Rows, callback: Callback) -> Inspection:
        """Call a function for each change of rows."""

    def inspect_columns(self, rows: Rows, callback: ColumnsCallback) -> ColumnsInspection:
        """Call a function with the changes of rows, by columns."""

    def probe(self, rows: Rows) -> Probe:
        """Return a probe of rows."""

    def capture(self, rows: Rows) -> Captured:
        """Record the changes of rows."""

    def scope(self, limit: int | None = None) -> "LoopScope":
        """Return a loop inside of the one that is being written, if any."""

    def enter_scope(self, loop: "LoopScope") -> "LoopScope | None":
        """Begin a loop's block, and return the loop around it, if any."""

    def leave_scope(self, loop: "LoopScope") -> None:
        """End a loop's block."""

    def install_outputs(self, term: Term, outputs: Iterable[tuple[Output, int | None]]) -> None:
        """Compute a term, and let outputs read the sinks of the numbers that stand with them."""


@synchronized()
class Collection:
    """Rows of named columns. Methods describe further collections; outputs are what makes them computed.

    Functions of symbolic rows (``map``, ``filter``, ``join``) are called once, with expressions for columns,
    and become compiled programs. None is a value like others: equal to itself, last in an order.
    """

    def __init__(self, flow: Flow, rows: Rows) -> None:
        self._monitor = flow.monitor
        self._flow = flow
        self._rows = rows

    @property
    def key(self) -> tuple[str, ...] | None:
        """The columns that it is arranged by, if it is."""
        return None

    @property
    def columns(self) -> list[str]:
        """The column names."""
        return list(self._rows.names)

    @property
    def types(self) -> list[Type]:
        """The SQL types of the columns."""
        return list(self._rows.types)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name} {t}" for name, t in zip(self.columns, self.types, strict=True))
        return f"<{type(self).__name__} ({shown})>"

    def map(self, f: RowFunction) -> "Collection":
        """Each row as what ``f(row)`` makes of it: a dict of named expressions, several, or one."""
        return self._made(self._rows.mapped(*as_columns(f(self._rows.symbolic), self._rows.symbolic)))

    def filter(self, f: Callable[[SymbolicRow], Any]) -> "Collection":
        """The rows on which the condition ``f(row)`` is true."""
        return self._made(self._rows.filtered([as_condition(f(self._rows.symbolic)).scalar]))

    def project(self, *names: str) -> "Collection":
        """Some of the columns, in that order."""
        return self._made(self._rows.chosen(self._rows.places(distinct(names))))

    def rename(self, /, **names: str) -> "Collection":
        """Columns under new names: ``rename(src="dst", dst="src")``."""
        self._rows.places(tuple(names))
        return self._made(self._rows.renamed(distinct(names.get(name, name) for name in self.columns)))

    def map_columns(self, f: Callable[..., Any], /, **types: ColumnType) -> "Collection":
        """``f(array, array, ...)``, one array a column, gives an array for each of ``types``, in a tuple."""
        return self._made(operators.applied(self._rows, Kind.MAP_COLUMNS, f, schema_of(types)))

    def filter_columns(self, f: Callable[..., Any]) -> "Collection":
        """The rows for which ``f(array, array, ...)`` gives an array of bools with True."""
        return self._made(operators.applied(self._rows, Kind.FILTER_COLUMNS, f, None))

    def map_rows(self, f: Callable[..., Any], /, **types: ColumnType) -> "Collection":
        """``f(value, value, ...)`` gives the row's image, a tuple (or the value, if there is one column)."""
        return self._made(operators.applied(self._rows, Kind.MAP_ROWS, f, schema_of(types)))

    def filter_rows(self, f: Callable[..., Any]) -> "Collection":
        """The rows for which ``f(value, value, ...)`` is true."""
        return self._made(operators.applied(self._rows, Kind.FILTER_ROWS, f, None))

    def flat_map(self, f: Callable[..., Iterable[Any]], /, **types: ColumnType) -> "Collection":
        """``f(value, value, ...)`` gives any number of rows."""
        return self._made(operators.applied(self._rows, Kind.FLAT_MAP, f, schema_of(types)))

    def explode(self, f: Callable[..., Iterable[Any]], /, **types: ColumnType) -> "Collection":
        """``f(value, value, ...)`` gives pairs (row, multiplicity), which multiply the row's own."""
        return self._made(operators.applied(self._rows, Kind.EXPLODE, f, schema_of(types)))

    def concat(self, *others: "Collection") -> "Collection":
        """The sum: multiplicities add up. All have the same columns, in any order."""
        parts = united([self._rows, *(other._rows for other in others)], "concat")
        return self._made(operators.concatenated(parts)) if others else self

    def negate(self) -> "Collection":
        """Multiplicities times -1."""
        return self._made(operators.over(self._rows, plan.Negate))

    def join(
        self,
        other: "Collection",
        key: JoinKey = None,
        result: Callable[[SymbolicRow, SymbolicRow], Any] | None = None,
    ) -> "Collection":
        """Pairs of rows that agree on the key; multiplicities multiply.

        ``key`` names columns that both have (without it: all such), or maps left to right columns; ``()``
        pairs everything. ``result(left, right)`` says what becomes of a pair, as in :meth:`map`: without it,
        the left columns and then the right ones that are not of the key. Arrangements are shared.
        """
        left, right = self._ordered(other, *self._keys(other, key))
        first, second = self._indexed(left), other._indexed(right)
        rows = self._pair(first.rows, second.rows)
        if result is None:
            rest = [name for name in second.rows.names if name not in right]
            names, outputs = self._side_by_side(rows, rest)
        else:
            names, outputs = as_columns(result(*rows), *rows)
        return self._made(operators.joined(first, second, len(left), names, outputs))

    def semijoin(self, other: "Collection", key: JoinKey = None) -> "Collection":
        """The rows whose key occurs in ``other``, as often as they were, however often it occurs there."""
        left, right = self._keys(other, key)
        keys = other.project(*right).distinct()
        matched = dict(zip(left, right, strict=True))
        return self.join(keys, matched, lambda row, _: row).project(*self.columns)

    def antijoin(self, other: "Collection", key: JoinKey = None) -> "Collection":
        """The rows whose key does not occur in ``other``."""
        return self.concat(self.semijoin(other, key).negate())

    def count(self, key: Names | None = None, name: str = "count") -> "Collection":
        """(key..., count): the number of rows of each group; without a key, of each row.

        With ``key=()`` there is one row always, 0 for nothing, as in SQL.
        """
        places = range(len(self.columns)) if key is None else self._rows.places(listed(key))
        distinct((*(self.columns[place] for place in places), name))
        return self._made(operators.counted(self._rows, tuple(places), name))

    def sum(self, column: str, key: Names = ()) -> "Collection":
        """(key..., column): the exact sum of a column in each group; one row always with ``key=()``."""
        place = place_of(column, self.columns)
        return self._made(operators.summed(self._rows, place, self._rows.places(listed(key))))

    def min(self, column: str, key: Names = ()) -> "Collection":
        """(key..., column): the smallest value in each group; None only if there is no other."""
        return self._extreme(column, key, descending=False)

    def max(self, column: str, key: Names = ()) -> "Collection":
        """(key..., column): the largest value in each group; None only if there is no other."""
        return self._extreme(column, key, descending=True)

    def top_k(self, k: int, by: Names, key: Names = ()) -> "Collection":
        """The first ``k`` rows of each group ordered by columns; ``"-name"`` orders from the largest down.

        None comes last. A row of multiplicity two takes two places.
        """
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise InterfaceError(f"top_k takes a positive number of rows, not {k!r}")
        order = [
            (place_of(name.removeprefix("-"), self.columns), name.startswith("-")) for name in listed(by)
        ]
        return self._made(operators.top(self._rows, self._rows.places(listed(key)), order, k))

    def distinct(self) -> "Collection":
        """Each row of positive multiplicity once."""
        return self._made(operators.over(self._rows, plan.Distinct))

    def threshold(self, f: Callable[[tuple[Any, ...], int], int] | None = None) -> "Collection":
        """Each row of positive multiplicity, with that, or with what ``f(row, multiplicity)`` makes of it."""
        if f is None:
            return self._made(operators.over(self._rows, plan.Threshold))
        return self._made(operators.threshold(self._rows, f))

    def reduce(
        self, f: Callable[[tuple[Any, ...], list[Any]], Iterable[Any]], /, key: Names, **types: ColumnType
    ) -> "Collection":
        """(key..., types...): the rows that ``f(key, rows)`` gives for each group.

        ``rows`` are pairs (values, multiplicity), values being those of the other columns, in order. It
        is not called for a group without rows, and need not give the same each time.
        """
        return self._made(
            operators.reduced(self._indexed(listed(key), inline=True), f, schema_of(types), arrays=False)
        )

    def reduce_columns(
        self, f: Callable[..., Iterable[Any]], /, key: Names, **types: ColumnType
    ) -> "Collection":
        """As :meth:`reduce` with ``f(key, arrays, multiplicities)``: a tuple of arrays, one a column."""
        return self._made(
            operators.reduced(self._indexed(listed(key), inline=True), f, schema_of(types), arrays=True)
        )

    def consolidate(self) -> "Collection":
        """The same rows, each once for each time at which it changes, and kept."""
        return self.arrange_by_key(*self.columns)

    def arrange_by_key(self, *key: str) -> "Arranged":
        """The rows, kept in an index by ``key`` (without one: by all columns) that all who need it share."""
        names = distinct(key or self.columns)
        return self._flow.arrange(self._indexed(names), names, self._rows)

    def iterate(self, body: "Callable[[Collection], Collection]", limit: int | None = None) -> "Collection":
        """What ``c = body(c)`` comes to from this collection, round by round, or after ``limit`` rounds."""

        return iterated(self._flow, self, body, limit)

    def apply(self, operator: Operator, /, *others: "Collection", **types: ColumnType) -> "Collection":
        """What the user's operator sends, rows of ``types``; ``others`` are its inputs 1, 2, ..."""
        parts = [self._rows, *(other._rows for other in others)]
        return self._made(operators.custom(parts, operator, schema_of(types)))

    def inspect(self, callback: Callback) -> Inspection:
        """Call ``callback(row, time, diff)`` for each change, after each step that commits it."""
        return self._flow.inspect(self._rows, callback)

    def inspect_columns(self, callback: ColumnsCallback) -> ColumnsInspection:
        """Call ``callback(arrays, times, diffs)`` after each step that changes the collection."""
        return self._flow.inspect_columns(self._rows, callback)

    def probe(self) -> Probe:
        """Up to which time the collection is complete."""
        return self._flow.probe(self._rows)

    def capture(self) -> Captured:
        """A record of all changes, from the present contents on."""
        return self._flow.capture(self._rows)

    def export(self, name: str) -> "Arranged":
        """Keep the rows as a view: SQL and other dataflows can read it by its name."""
        return self._flow.export(name, self)

    def enter_at(self, loop: "LoopScope", round_of: RowFunction) -> "Collection":
        """The collection inside a loop, each row from a round on, as ``loop.enter_at`` gives it."""
        return loop.enter_at(self, round_of)

    def enter(self, loop: "LoopScope") -> "Collection":
        """The collection inside a loop, as ``loop.enter`` gives it."""
        return loop.enter(self)

    def _made(self, rows: Rows) -> "Collection":
        return Collection(self._flow, rows)

    def _indexed(self, key: Sequence[str], *, inline: bool = False) -> operators.Index:
        """The rows arranged by columns; inline, with the key first."""
        return operators.index_by(self._rows, self._rows.places(distinct(key)), inline=inline)

    def _keys(self, other: "Collection", key: JoinKey) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The columns of the key on both sides."""
        if not isinstance(other, Collection):
            raise InterfaceError(f"a collection joins with a collection, not with {other!r}")
        if isinstance(key, dict):
            left, right = tuple(key), tuple(key.values())
        elif key is None:
            left = right = tuple(name for name in self.columns if name in other.columns)
            if not left:
                raise ProgrammingError(
                    "the collections have no column in common",
                    hint='say key={"left": "right"}, or rename() one',
                )
        else:
            left = right = listed(key)
        types = zip(left, self._types_of(left), other._types_of(right), right, strict=True)
        for one, type_, its, name in types:
            if not comparable(type_, its):
                raise ProgrammingError(
                    f"key {one} {type_} does not compare with {name} {its}", hint="cast one of them"
                )
        return left, right

    def _ordered(
        self, other: "Collection", left: tuple[str, ...], right: tuple[str, ...]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The key in the order in which an arrangement has it."""
        for kept, names in ((self.key, left), (other.key, right)):
            if kept is not None and len(set(names)) == len(names) and set(kept) == set(names):
                order = [names.index(name) for name in kept]
                return tuple(left[place] for place in order), tuple(right[place] for place in order)
        return left, right

    def _types_of(self, names: Sequence[str]) -> list[Type]:
        return [self._rows.types[place] for place in self._rows.places(names)]

    @staticmethod
    def _pair(left: Rows, right: Rows) -> tuple[SymbolicRow, SymbolicRow]:
        """Symbolic rows over the columns of both sides."""
        width = len(left.names)
        values = [Column(width + i, type_) for i, type_ in enumerate(right.types)]
        return left.symbolic, SymbolicRow(right.names, values)

    @staticmethod
    def _side_by_side(rows: tuple[SymbolicRow, SymbolicRow], rest: Sequence[str]) -> Any:
        left, right = rows
        given = {name: left[name] for name in left._names}
        clash = [name for name in rest if name in given]
        if clash:
            raise ProgrammingError(
                f'both sides have a column "{clash[0]}"', hint="rename() one, or say what the result is"
            )
        return as_columns({**given, **{name: right[name] for name in rest}})

    def _extreme(self, column: str, key: Names, *, descending: bool) -> "Collection":
        names = (*listed(key), column)
        chosen = self._rows.chosen(self._rows.places(distinct(names)))
        place = len(names) - 1
        return self._made(operators.top(chosen, range(place), [(place, descending)], 1))


class Arranged(Collection):
    """A collection indexed by ``key``. Joins and reduces by that key, or a prefix, read the index as it is.

    It is maintained until its dataflow is dropped and nobody else reads it; dataflows may begin to read it
    at any time. They see what it holds now, and then its changes.
    """

    def __init__(self, flow: Flow, index: Index, key: tuple[str, ...], table: Rows | None = None) -> None:
        super().__init__(flow, index.rows if table is None else table)
        self._table = table
        """The rows of a table that are indexed: whatever needs no index reads them as others do."""
        self._index = index
        self._key = key

    @property
    def key(self) -> tuple[str, ...]:
        return self._key

    def _indexed(self, key: Sequence[str], *, inline: bool = False) -> Index:
        places = self._rows.places(key)
        if self._index.serves(places) and (
            not inline or (self._index.inline and len(key) == self._index.key)
        ):
            return self._index
        return super()._indexed(key, inline=inline)


@synchronized()
class Variable(Collection):
    """A recursive collection: ``initial`` (or nothing), and from then on what it is ``set`` to."""

    def __init__(self, flow: Flow, scope: "LoopScope", rows: Rows) -> None:
        super().__init__(flow, rows)
        self._scope = scope
        self._result: Rows | None = None

    @property
    def result(self) -> Collection:
        """What it was set to."""
        if self._result is None:
            raise InterfaceError(f"{self!r} was not set", hint="call set() inside the loop")
        return Collection(self._flow, self._result)

    def set(self, collection: Collection) -> None:
        """Say what it is in the next round; once, and inside its loop."""
        self._scope.check_open("a variable is set")
        if self._result is not None:
            raise InterfaceError(
                f"{self!r} was set before", hint="concat() what it is to be, and set it once"
            )
        result = aligned(collection._rows, self._rows, "the variable")
        for name, may, has in zip(result.names, result.flags, self._rows.flags, strict=True):
            if may and not has:
                raise InterfaceError(
                    f"column {name} of the variable can be None", hint="declare it so: variable(x=int | None)"
                )
        self._scope.check_inside(result.term)
        self._result = result

    @property
    def stream(self) -> Term:
        """The term of its result."""
        rows = self.result._rows
        return rows.stream(rows.values)


@synchronized()
class LoopScope:
    """``with flow.scope() as loop:`` a loop. Collections from outside are there in every round.

    What leaves is the sum of the changes of all rounds: the fixed point, or after ``limit`` rounds what
    was reached; with ``error_at_limit`` it is an error if that was not the end. Other threads wait until the
    block ends.
    """

    def __init__(self, flow: Flow, limit: int | None, error_at_limit: bool) -> None:
        self._monitor = flow.monitor
        self._flow = flow
        self.parent: Level | None = None
        self.limit = limit
        self.error_at_limit = error_at_limit
        self._variables: list[Variable] = []
        self._terms: list[VariableTerm] = []
        self._left: list[Term] = []
        self._watched: list[Term] = []
        self._outputs: list[tuple[Output, int | None]] = []
        self._open = False

    def variable(self, start: Collection | None = None, /, **types: ColumnType) -> Variable:
        """A recursive collection, at first ``start``, or ``initial=start``, or empty with these columns."""
        initial = types.pop("initial") if isinstance(types.get("initial"), Collection) else start
        if initial is None:
            schema = schema_of(types)
            flags = tuple(column.nullable for column in schema.columns)
            return self.declare(None, schema.names, schema.types, flags)
        rows = initial._rows
        if types:
            given = schema_of(types)
            model = Rows(rows.term, (), rows.values, given.names, rows.flags)
            rows = aligned(rows, model, "the variable")
        return self.declare(rows, rows.names, rows.types, rows.flags)

    def declare(
        self, initial: Rows | None, names: Sequence[str], types: Sequence[Type], flags: Sequence[bool]
    ) -> Variable:
        """A variable with all said of it."""
        self.check_open("a variable is made")
        start = None if initial is None else initial.stream(initial.values)
        if start is not None:
            self.check_inside(start)
        term = variable_term(len(self._terms), types, start, self)
        made = Variable(self._flow, self, plain(term, names, flags))
        self._terms.append(term)
        self._variables.append(made)
        return made

    def enter(self, collection: Collection) -> Collection:
        """The collection in this loop. Collections enter by themselves; this says so."""
        rows = collection._rows
        self.check_inside(rows.term)
        if rows.term.scope is self:
            return collection
        stream = rows.stream(rows.values)
        return Collection(
            self._flow, plain(EnterTerm((stream,), stream.types, _never, self), rows.names, rows.flags)
        )

    def enter_at(self, collection: Collection, round_of: RowFunction) -> Collection:
        """The collection in this loop, each row from the round on that ``round_of(row)`` gives.

        It is a whole number. Rows of rounds below 0 are there from the first; rounds in which nothing
        enters cost nothing.
        """
        rows = collection._rows
        self.check_inside(rows.term)
        _, outputs = as_columns(round_of(rows.symbolic), rows.symbolic)
        if len(outputs) != 1 or not outputs[0].type.is_integer or can_be_null(outputs[0], rows.flags):
            raise ProgrammingError(
                "a round is one whole number, not None", hint="cast it, or filter the rows that have none"
            )
        columns = [Column(i, type_) for i, type_ in enumerate(rows.types)]
        timed = rows.mapped((*rows.names, "round"), (*columns, coerced(outputs[0], BIGINT)))
        inside = self.enter(Collection(self._flow, timed))._rows

        def make(refs: Sequence[Ref]) -> plan.AnyNode:
            return user.EnterAt(refs[0])

        term = Term.over((inside.stream(inside.values),), rows.types, make)
        return Collection(self._flow, plain(term, rows.names, rows.flags))

    def leave(self, collection: Collection) -> Collection:
        """The collection outside, as it is when the loop has come to its end."""
        self.check_open("a collection leaves")
        rows = collection._rows
        stream = rows.stream(rows.values)
        self.check_inside(stream)
        if stream.scope is not self:
            return collection
        if stream not in self._left:
            self._left.append(stream)
        term = LeaveTerm((), stream.types, _never, self.parent, loop=self, result=self._left.index(stream))
        return Collection(self._flow, plain(term, rows.names, rows.flags))

    @property
    def variables(self) -> Sequence[VariableTerm]:
        """The recursive collections."""
        return self._terms

    @property
    def left(self) -> Sequence[Term]:
        """What leaves."""
        return self._left

    @property
    def results(self) -> Sequence[Term]:
        """What each variable becomes, then what leaves; InterfaceError while the block is being written."""
        if self._open:
            raise InterfaceError(
                "the loop is still being written", hint="read its results after the with block"
            )
        return [*(variable.stream for variable in self._variables), *self._left]

    @property
    def watched(self) -> Sequence[Term]:
        """What is read inside."""
        return self._watched

    def watch(self, term: Term, output: Output, listener: int | None) -> None:
        """Have an output read a term of this loop, through the sink of that number, if any."""
        self.check_open("a collection of a loop is read")
        self._watched.append(term)
        self._outputs.append((output, listener))

    def unwatch(self) -> None:
        """Close what reads inside."""
        for output, _ in self._outputs:
            output.close()
        self._outputs.clear()
        self._watched.clear()

    @property
    def open(self) -> bool:
        """Whether the block is still being written."""
        return self._open

    def __enter__(self) -> "LoopScope":
        self._outermost = self._monitor.enter()
        self.parent = self._flow.enter_scope(self)
        self._open = True
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self._monitor.check_inside()
        try:
            self._open = False
            self._flow.leave_scope(self)
            if kind is None:
                for variable in self._variables:
                    _ = variable.result  # raises if it was not set
                if self._watched:
                    self._hand_over()
        finally:
            if self._outermost:
                self._monitor.leave()

    def _hand_over(self) -> None:
        """Have the loop around this one, or the dataflow, begin to compute what is read inside."""
        whole = LoopTerm((), (), _never, self.parent, loop=self)
        if isinstance(self.parent, LoopScope):
            self.parent._watched.append(whole)
            self.parent._outputs += self._outputs
        else:
            self._flow.install_outputs(whole, self._outputs)

    def check_open(self, what: str) -> None:
        """Raise InterfaceError outside of the block."""
        if not self._open:
            raise InterfaceError(f"{what} inside the loop's with block", hint="move it there")

    def check_inside(self, term: Term) -> None:
        """Raise InterfaceError if the term is of a loop that is not this one nor around it."""
        if term.scope is not None and not any(term.scope is level for level in enclosing(self)):
            raise InterfaceError("the collection belongs to another loop", hint="leave() that loop first")


def _never(refs: Sequence[Ref]) -> plan.AnyNode:
    raise AssertionError("assembly makes these nodes itself")


def iterated(
    flow: Flow, start: Collection, body: Callable[[Collection], Collection], limit: int | None
) -> Collection:
    """``start``, ``body(start)``, ``body(body(start))`` and so on, to the end."""
    return _fixed_point(start._rows, lambda variable, _: body(variable), flow, start._rows, limit)


def recursive(
    model: Collection, body: Callable[[Collection, LoopScope], Collection], limit: int | None = None
) -> Collection:
    """What ``c = body(c, loop)`` comes to from nothing, round by round; ``c`` has the columns of ``model``.

    Unlike ``Collection.iterate`` nothing is put in before the first round: ``body`` adds what it starts from,
    in every round, so that each row needs support in each. With a ``limit`` only so many are computed.
    """
    return _fixed_point(model._rows, body, model._flow, None, limit)


def _fixed_point(
    model: Rows,
    body: Callable[[Collection, LoopScope], Collection],
    flow: Flow,
    start: Rows | None,
    limit: int | None,
) -> Collection:
    flags = model.flags
    while True:
        with flow.scope(limit=limit) as loop:
            variable = loop.declare(start, model.names, model.types, flags)
            result = aligned(
                body(variable, loop)._rows,
                model,
                "the body of iterate" if start else "the body of the recursion",
            )
            wider = tuple(a or b for a, b in zip(flags, result.flags, strict=True))
            whole = Collection(flow, result)
            # A column that can be None from the first round on is known to be so only now: begin again.
            variable.set(variable if wider != flags else whole)
            if wider == flags:
                return loop.leave(whole)
            loop.unwatch()
        flags = wider
