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
    are_comparable,
    as_columns,
    as_condition,
    as_tuple,
    check_distinct,
    coerce,
    position_of,
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
from kpg.collections.rows import Rows, align_columns, term_rows, unify_columns
from kpg.collections.term import EnterTerm, LeaveTerm, LoopTerm, Scope, Term, VariableTerm, enclosing_scopes
from kpg.collections.term import variable_term as variable_term
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
    """The dataflow of a collection. It has the installed outputs and the open loops."""

    @property
    def engine(self) -> "Engine":
        """The engine of the dataflow's database."""

    @property
    def dictionary(self) -> Dictionary:
        """The dictionary of the database."""

    def check(self) -> None:
        """Raise InterfaceError if the dataflow was dropped, or its database closed."""

    def retire_completed(self) -> None:
        """Retire the outputs that a closed input has completed, now or with the next commit."""

    def arrange(self, index: Index, key: tuple[str, ...], rows: Rows) -> "Arranged":
        """Maintain an arrangement of rows. Inside a loop, it is maintained with the loop."""

    def export(self, name: str, collection: "Collection") -> "Arranged":
        """Maintain a collection as a view."""

    def inspect(self, rows: Rows, callback: Callback) -> Inspection:
        """Call a function for each change of rows."""

    def inspect_columns(self, rows: Rows, callback: ColumnsCallback) -> ColumnsInspection:
        """Call a function with the changes of rows, as one array per column."""

    def probe(self, rows: Rows) -> Probe:
        """Return a probe of rows."""

    def capture(self, rows: Rows) -> Captured:
        """Record the changes of rows."""

    def scope(self, limit: int | None = None) -> "LoopScope":
        """Return a loop inside the innermost open one, if there is any."""

    def enter_scope(self, loop: "LoopScope") -> "LoopScope | None":
        """Begin a loop's block, and return the enclosing loop, if there is any."""

    def leave_scope(self, loop: "LoopScope") -> None:
        """End a loop's block."""

    def install_outputs(self, term: Term, outputs: Iterable[tuple[Output, int | None]]) -> None:
        """Install a term, and attach each output to the sink with its number."""


@synchronized()
class Collection:
    """Rows with named columns. Methods describe further collections; outputs cause them to be computed.

    Functions of symbolic rows (``map``, ``filter``, ``join``) are called once, with expressions for
    columns, and become compiled programs. None is an ordinary value: it equals itself and comes last in
    an order.
    """

    def __init__(self, flow: Flow, rows: Rows) -> None:
        self._monitor = flow.monitor
        self._flow = flow
        self._rows = rows

    @property
    def key(self) -> tuple[str, ...] | None:
        """The columns by which the collection is arranged, or None."""
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
        columns = ", ".join(f"{name} {t}" for name, t in zip(self.columns, self.types, strict=True))
        return f"<{type(self).__name__} ({columns})>"

    def map(self, f: RowFunction) -> "Collection":
        """Replace each row by ``f(row)``: a dict of named expressions, a sequence of expressions, or one."""
        return self._with_rows(self._rows.map(*as_columns(f(self._rows.symbolic), self._rows.symbolic)))

    def filter(self, f: Callable[[SymbolicRow], Any]) -> "Collection":
        """Keep the rows on which the condition ``f(row)`` is true."""
        return self._with_rows(self._rows.filter([as_condition(f(self._rows.symbolic)).scalar]))

    def project(self, *names: str) -> "Collection":
        """Select columns, in the given order."""
        return self._with_rows(self._rows.select(self._rows.positions(check_distinct(names))))

    def rename(self, /, **names: str) -> "Collection":
        """Rename columns: ``rename(src="dst", dst="src")``."""
        self._rows.positions(tuple(names))
        return self._with_rows(
            self._rows.rename(check_distinct(names.get(name, name) for name in self.columns))
        )

    def map_columns(self, f: Callable[..., Any], /, **types: ColumnType) -> "Collection":
        """Replace the columns by the tuple of arrays ``f(array, array, ...)``, one for each of ``types``.

        ``f`` gets one array per column.
        """
        return self._with_rows(operators.apply_function(self._rows, Kind.MAP_COLUMNS, f, schema_of(types)))

    def filter_columns(self, f: Callable[..., Any]) -> "Collection":
        """Keep the rows for which ``f(array, array, ...)``, an array of bools, is True."""
        return self._with_rows(operators.apply_function(self._rows, Kind.FILTER_COLUMNS, f, None))

    def map_rows(self, f: Callable[..., Any], /, **types: ColumnType) -> "Collection":
        """Replace each row by the tuple ``f(value, value, ...)``, or by the value if there is one column."""
        return self._with_rows(operators.apply_function(self._rows, Kind.MAP_ROWS, f, schema_of(types)))

    def filter_rows(self, f: Callable[..., Any]) -> "Collection":
        """Keep the rows for which ``f(value, value, ...)`` is true."""
        return self._with_rows(operators.apply_function(self._rows, Kind.FILTER_ROWS, f, None))

    def flat_map(self, f: Callable[..., Iterable[Any]], /, **types: ColumnType) -> "Collection":
        """Replace each row by the rows of the iterable ``f(value, value, ...)``."""
        return self._with_rows(operators.apply_function(self._rows, Kind.FLAT_MAP, f, schema_of(types)))

    def explode(self, f: Callable[..., Iterable[Any]], /, **types: ColumnType) -> "Collection":
        """Replace each row by the pairs (row, multiplicity) of ``f(value, value, ...)``.

        A pair's multiplicity is multiplied by that of the original row.
        """
        return self._with_rows(operators.apply_function(self._rows, Kind.EXPLODE, f, schema_of(types)))

    def concat(self, *others: "Collection") -> "Collection":
        """Return the sum of the collections: multiplicities add up.

        All have the same columns, in any order.
        """
        parts = unify_columns([self._rows, *(other._rows for other in others)], "concat")
        return self._with_rows(operators.concat(parts)) if others else self

    def negate(self) -> "Collection":
        """Negate all multiplicities."""
        return self._with_rows(operators.add_node(self._rows, plan.Negate))

    def join(
        self,
        other: "Collection",
        key: JoinKey = None,
        result: Callable[[SymbolicRow, SymbolicRow], Any] | None = None,
    ) -> "Collection":
        """Return the pairs of rows that agree on the key. Multiplicities are multiplied.

        Args:
          other: the right collection.
          key: columns that both have, or a dict from left to right columns. By default all common columns;
            ``()`` is a cross product.
          result: ``result(left, right)`` is the row of a pair, as in :meth:`map`. By default, the left
            columns and then the right columns that are not in the key.

        Arrangements are shared.
        """
        left, right = self._order_key(other, *self._join_columns(other, key))
        first, second = self._index_by(left), other._index_by(right)
        rows = self._symbolic_pair(first.rows, second.rows)
        if result is None:
            rest = [name for name in second.rows.names if name not in right]
            names, outputs = self._concat_columns(rows, rest)
        else:
            names, outputs = as_columns(result(*rows), *rows)
        return self._with_rows(operators.join(first, second, len(left), names, outputs))

    def semijoin(self, other: "Collection", key: JoinKey = None) -> "Collection":
        """Return the rows whose key occurs in ``other``, with unchanged multiplicities."""
        left, right = self._join_columns(other, key)
        keys = other.project(*right).distinct()
        matched = dict(zip(left, right, strict=True))
        return self.join(keys, matched, lambda row, _: row).project(*self.columns)

    def antijoin(self, other: "Collection", key: JoinKey = None) -> "Collection":
        """Return the rows whose key does not occur in ``other``."""
        return self.concat(self.semijoin(other, key).negate())

    def count(self, key: Names | None = None, name: str = "count") -> "Collection":
        """Return (key..., count): the number of rows of each group; without a key, of each row.

        With ``key=()`` there is always one row, with 0 for an empty collection, as in SQL.
        """
        positions = range(len(self.columns)) if key is None else self._rows.positions(as_tuple(key))
        check_distinct((*(self.columns[position] for position in positions), name))
        return self._with_rows(operators.count_groups(self._rows, tuple(positions), name))

    def sum(self, column: str, key: Names = ()) -> "Collection":
        """Return (key..., column): the exact sum of a column per group.

        With ``key=()`` there is always one row.
        """
        position = position_of(column, self.columns)
        return self._with_rows(
            operators.sum_groups(self._rows, position, self._rows.positions(as_tuple(key)))
        )

    def min(self, column: str, key: Names = ()) -> "Collection":
        """Return (key..., column): the smallest value per group, None only if the group has no other."""
        return self._extreme(column, key, descending=False)

    def max(self, column: str, key: Names = ()) -> "Collection":
        """Return (key..., column): the largest value per group, None only if the group has no other value."""
        return self._extreme(column, key, descending=True)

    def top_k(self, k: int, by: Names, key: Names = ()) -> "Collection":
        """Return the first ``k`` rows of each group, ordered by columns. ``"-name"`` means descending.

        None comes last. A row with multiplicity two counts as two rows.
        """
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise InterfaceError(f"top_k takes a positive number of rows, not {k!r}")
        order = [
            (position_of(name.removeprefix("-"), self.columns), name.startswith("-")) for name in as_tuple(by)
        ]
        return self._with_rows(operators.top_k(self._rows, self._rows.positions(as_tuple(key)), order, k))

    def distinct(self) -> "Collection":
        """Return each row of positive multiplicity once."""
        return self._with_rows(operators.add_node(self._rows, plan.Distinct))

    def threshold(self, f: Callable[[tuple[Any, ...], int], int] | None = None) -> "Collection":
        """Return the rows of positive multiplicity, with the multiplicity ``f(row, multiplicity)``.

        Without ``f`` their multiplicities are unchanged.
        """
        if f is None:
            return self._with_rows(operators.add_node(self._rows, plan.Threshold))
        return self._with_rows(operators.threshold(self._rows, f))

    def reduce(
        self, f: Callable[[tuple[Any, ...], list[Any]], Iterable[Any]], /, key: Names, **types: ColumnType
    ) -> "Collection":
        """Return (key..., types...): the rows that ``f(key, rows)`` returns for each group.

        ``rows`` are pairs (values, multiplicity) of the other columns, in order. ``f`` is not called for an
        empty group, and may return different rows each time.
        """
        return self._with_rows(
            operators.reduce_groups(
                self._index_by(as_tuple(key), inline=True), f, schema_of(types), arrays=False
            )
        )

    def reduce_columns(
        self, f: Callable[..., Iterable[Any]], /, key: Names, **types: ColumnType
    ) -> "Collection":
        """Reduce as :meth:`reduce` does, with ``f(key, arrays, multiplicities)``.

        ``f`` returns a tuple with one array per column.
        """
        return self._with_rows(
            operators.reduce_groups(
                self._index_by(as_tuple(key), inline=True), f, schema_of(types), arrays=True
            )
        )

    def consolidate(self) -> "Collection":
        """Return the same rows with one update per row and time, arranged by all columns."""
        return self.arrange_by_key(*self.columns)

    def arrange_by_key(self, *key: str) -> "Arranged":
        """Arrange the rows by ``key``, by default all columns. All readers share the index."""
        names = check_distinct(key or self.columns)
        return self._flow.arrange(self._index_by(names), names, self._rows)

    def iterate(self, body: "Callable[[Collection], Collection]", limit: int | None = None) -> "Collection":
        """Return the fixed point of ``c = body(c)`` from this collection, or its value after ``limit``
        rounds.
        """

        return iterate(self._flow, self, body, limit)

    def apply(self, operator: Operator, /, *others: "Collection", **types: ColumnType) -> "Collection":
        """Apply a user's operator, which sends rows of ``types``. ``others`` are its inputs 1, 2, ..."""
        parts = [self._rows, *(other._rows for other in others)]
        return self._with_rows(operators.apply_operator(parts, operator, schema_of(types)))

    def inspect(self, callback: Callback) -> Inspection:
        """Call ``callback(row, time, diff)`` for each change, after the step that commits it."""
        return self._flow.inspect(self._rows, callback)

    def inspect_columns(self, callback: ColumnsCallback) -> ColumnsInspection:
        """Call ``callback(arrays, times, diffs)`` after each step that changes the collection."""
        return self._flow.inspect_columns(self._rows, callback)

    def probe(self) -> Probe:
        """Return a probe, which tells up to which time the collection is complete."""
        return self._flow.probe(self._rows)

    def capture(self) -> Captured:
        """Return a recording of all changes, which begins with the present contents."""
        return self._flow.capture(self._rows)

    def export(self, name: str) -> "Arranged":
        """Maintain the rows as a view that SQL and other dataflows can read by name."""
        return self._flow.export(name, self)

    def enter_at(self, loop: "LoopScope", round_of: RowFunction) -> "Collection":
        """Enter a loop, each row at the round ``round_of(row)``: see :meth:`LoopScope.enter_at`."""
        return loop.enter_at(self, round_of)

    def enter(self, loop: "LoopScope") -> "Collection":
        """Enter a loop: see :meth:`LoopScope.enter`."""
        return loop.enter(self)

    def _with_rows(self, rows: Rows) -> "Collection":
        return Collection(self._flow, rows)

    def _index_by(self, key: Sequence[str], *, inline: bool = False) -> operators.Index:
        """Return the rows arranged by columns.

        With ``inline``, the arrangement has all columns, the key first.
        """
        return operators.index_by(self._rows, self._rows.positions(check_distinct(key)), inline=inline)

    def _join_columns(self, other: "Collection", key: JoinKey) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the columns of the key on both sides."""
        if not isinstance(other, Collection):
            raise InterfaceError(f"a collection joins with a collection, not with {other!r}")
        if isinstance(key, dict):
            left, right = tuple(key), tuple(key.values())
        elif key is None:
            left = right = tuple(name for name in self.columns if name in other.columns)
            if not left:
                raise ProgrammingError(
                    "the collections have no column in common",
                    hint='pass key={"left": "right"}, or rename() a column',
                )
        else:
            left = right = as_tuple(key)
        types = zip(left, self._types_of(left), other._types_of(right), right, strict=True)
        for left_name, type_, right_type, right_name in types:
            if not are_comparable(type_, right_type):
                raise ProgrammingError(
                    f"key {left_name} {type_} does not compare with {right_name} {right_type}",
                    hint="cast one of them",
                )
        return left, right

    def _order_key(
        self, other: "Collection", left: tuple[str, ...], right: tuple[str, ...]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the key in the order of an existing arrangement, if there is one."""
        for arranged_key, names in ((self.key, left), (other.key, right)):
            if arranged_key is not None and len(set(names)) == len(names) and set(arranged_key) == set(names):
                order = [names.index(name) for name in arranged_key]
                return tuple(left[position] for position in order), tuple(
                    right[position] for position in order
                )
        return left, right

    def _types_of(self, names: Sequence[str]) -> list[Type]:
        return [self._rows.types[position] for position in self._rows.positions(names)]

    @staticmethod
    def _symbolic_pair(left: Rows, right: Rows) -> tuple[SymbolicRow, SymbolicRow]:
        """Return symbolic rows over the columns of both sides."""
        width = len(left.names)
        values = [Column(width + i, type_) for i, type_ in enumerate(right.types)]
        return left.symbolic, SymbolicRow(right.names, values)

    @staticmethod
    def _concat_columns(rows: tuple[SymbolicRow, SymbolicRow], rest: Sequence[str]) -> Any:
        left, right = rows
        left_columns = {name: left[name] for name in left._names}
        clash = [name for name in rest if name in left_columns]
        if clash:
            raise ProgrammingError(
                f'both sides have a column "{clash[0]}"', hint="rename() one, or pass result="
            )
        return as_columns({**left_columns, **{name: right[name] for name in rest}})

    def _extreme(self, column: str, key: Names, *, descending: bool) -> "Collection":
        names = (*as_tuple(key), column)
        selected = self._rows.select(self._rows.positions(check_distinct(names)))
        position = len(names) - 1
        return self._with_rows(operators.top_k(selected, range(position), [(position, descending)], 1))


class Arranged(Collection):
    """A collection indexed by ``key``.

    Joins and reduces by that key, or by a prefix of it, share the index.

    The index is maintained until its dataflow is dropped and it has no other reader. A dataflow may
    begin to read it at any time. It reads the present contents, and then the changes.
    """

    def __init__(self, flow: Flow, index: Index, key: tuple[str, ...], table: Rows | None = None) -> None:
        super().__init__(flow, index.rows if table is None else table)
        self._table = table
        """The rows of the indexed table, for readers that need no index; None if it is not a table."""
        self._index = index
        self._key = key

    @property
    def key(self) -> tuple[str, ...]:
        return self._key

    def _index_by(self, key: Sequence[str], *, inline: bool = False) -> Index:
        positions = self._rows.positions(key)
        if self._index.serves(positions) and (
            not inline or (self._index.inline and len(key) == self._index.key)
        ):
            return self._index
        return super()._index_by(key, inline=inline)


@synchronized()
class Variable(Collection):
    """A recursive collection.

    It begins as ``initial`` or empty. Later rounds have the collection passed to :meth:`set`.
    """

    def __init__(self, flow: Flow, scope: "LoopScope", rows: Rows) -> None:
        super().__init__(flow, rows)
        self._scope = scope
        self._result: Rows | None = None

    @property
    def result(self) -> Collection:
        """The collection that the variable was set to. Raises InterfaceError if it was not set."""
        if self._result is None:
            raise InterfaceError(f"{self!r} was not set", hint="call set() inside the loop")
        return Collection(self._flow, self._result)

    def set(self, collection: Collection) -> None:
        """Set the collection of the next round. Must be called once, inside the loop."""
        self._scope.check_open("a variable is set")
        if self._result is not None:
            raise InterfaceError(
                f"{self!r} was set before", hint="concat() the collections, and set the variable once"
            )
        result = align_columns(collection._rows, self._rows, "the variable")
        for name, may_be_null, is_nullable in zip(result.names, result.flags, self._rows.flags, strict=True):
            if may_be_null and not is_nullable:
                raise InterfaceError(
                    f"column {name} of the variable can be None", hint="declare it so: variable(x=int | None)"
                )
        self._scope.check_inside(result.term)
        self._result = result

    @property
    def stream(self) -> Term:
        """The term of the result."""
        rows = self.result._rows
        return rows.stream(rows.values)


@synchronized()
class LoopScope:
    """A loop: ``with flow.scope() as loop:``. Outer collections are the same in every round.

    A collection that leaves is the sum of the changes of all rounds. This is the fixed point, or the
    value after ``limit`` rounds. With ``error_at_limit``, a loop without a fixed point by then is an
    error. Other threads wait until the block ends.
    """

    def __init__(self, flow: Flow, limit: int | None, error_at_limit: bool) -> None:
        self._monitor = flow.monitor
        self._flow = flow
        self.parent: Scope | None = None
        self.limit = limit
        self.error_at_limit = error_at_limit
        self._variables: list[Variable] = []
        self._terms: list[VariableTerm] = []
        self._exit_terms: list[Term] = []
        self._output_terms: list[Term] = []
        self._outputs: list[tuple[Output, int | None]] = []
        self._open = False

    def variable(self, start: Collection | None = None, /, **types: ColumnType) -> Variable:
        """Return a recursive collection that begins as ``start``, or empty with columns of these types.

        ``initial=start`` is equivalent to ``start``.
        """
        initial = types.pop("initial") if isinstance(types.get("initial"), Collection) else start
        if initial is None:
            schema = schema_of(types)
            flags = tuple(column.nullable for column in schema.columns)
            return self.declare_variable(None, schema.names, schema.types, flags)
        rows = initial._rows
        if types:
            declared = schema_of(types)
            model = Rows(rows.term, (), rows.values, declared.names, rows.flags)
            rows = align_columns(rows, model, "the variable")
        return self.declare_variable(rows, rows.names, rows.types, rows.flags)

    def declare_variable(
        self, initial: Rows | None, names: Sequence[str], types: Sequence[Type], flags: Sequence[bool]
    ) -> Variable:
        """Return a variable with these columns. ``flags`` tells which can be NULL."""
        self.check_open("a variable is made")
        start = None if initial is None else initial.stream(initial.values)
        if start is not None:
            self.check_inside(start)
        term = variable_term(len(self._terms), types, start, self)
        variable = Variable(self._flow, self, term_rows(term, names, flags))
        self._terms.append(term)
        self._variables.append(variable)
        return variable

    def enter(self, collection: Collection) -> Collection:
        """Return the collection in this loop.

        Collections enter a loop implicitly; this makes it explicit.
        """
        rows = collection._rows
        self.check_inside(rows.term)
        if rows.term.scope is self:
            return collection
        stream = rows.stream(rows.values)
        return Collection(
            self._flow, term_rows(EnterTerm((stream,), stream.types, _no_node, self), rows.names, rows.flags)
        )

    def enter_at(self, collection: Collection, round_of: RowFunction) -> Collection:
        """Return the collection in this loop, each row from the round ``round_of(row)`` on.

        The round is an integer. Rows with a negative round enter in the first round. A round in which
        nothing enters costs nothing.
        """
        rows = collection._rows
        self.check_inside(rows.term)
        _, outputs = as_columns(round_of(rows.symbolic), rows.symbolic)
        if len(outputs) != 1 or not outputs[0].type.is_integer or can_be_null(outputs[0], rows.flags):
            raise ProgrammingError(
                "a round is one whole number, not None", hint="cast it, or filter out rows without a round"
            )
        columns = [Column(i, type_) for i, type_ in enumerate(rows.types)]
        timed = rows.map((*rows.names, "round"), (*columns, coerce(outputs[0], BIGINT)))
        inside = self.enter(Collection(self._flow, timed))._rows

        def make(refs: Sequence[Ref]) -> plan.AnyNode:
            return user.EnterAt(refs[0])

        term = Term.over((inside.stream(inside.values),), rows.types, make)
        return Collection(self._flow, term_rows(term, rows.names, rows.flags))

    def leave(self, collection: Collection) -> Collection:
        """Return the collection outside the loop, as of the loop's end."""
        self.check_open("a collection leaves")
        rows = collection._rows
        stream = rows.stream(rows.values)
        self.check_inside(stream)
        if stream.scope is not self:
            return collection
        if stream not in self._exit_terms:
            self._exit_terms.append(stream)
        term = LeaveTerm(
            (), stream.types, _no_node, self.parent, loop=self, result=self._exit_terms.index(stream)
        )
        return Collection(self._flow, term_rows(term, rows.names, rows.flags))

    @property
    def variables(self) -> Sequence[VariableTerm]:
        """The terms of the recursive collections."""
        return self._terms

    @property
    def exit_terms(self) -> Sequence[Term]:
        """The terms that leave the loop."""
        return self._exit_terms

    @property
    def results(self) -> Sequence[Term]:
        """The result of each variable, then the terms that leave.

        Raises InterfaceError while the block is open.
        """
        if self._open:
            raise InterfaceError(
                "the loop is still being written", hint="read its results after the with block"
            )
        return [*(variable.stream for variable in self._variables), *self._exit_terms]

    @property
    def output_terms(self) -> Sequence[Term]:
        """The terms that outputs read inside the loop."""
        return self._output_terms

    def watch(self, term: Term, output: Output, listener: int | None) -> None:
        """Attach an output to a term of this loop, by the sink number ``listener`` if there is one."""
        self.check_open("a collection of a loop is read")
        self._output_terms.append(term)
        self._outputs.append((output, listener))

    def close_outputs(self) -> None:
        """Close the outputs inside the loop."""
        for output, _ in self._outputs:
            output.close()
        self._outputs.clear()
        self._output_terms.clear()

    @property
    def open(self) -> bool:
        """Whether the block is still open."""
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
                if self._output_terms:
                    self._install_outputs()
        finally:
            if self._outermost:
                self._monitor.leave()

    def _install_outputs(self) -> None:
        """Pass the outputs inside the loop to the enclosing loop, or install them in the dataflow."""
        loop_term = LoopTerm((), (), _no_node, self.parent, loop=self)
        if isinstance(self.parent, LoopScope):
            self.parent._output_terms.append(loop_term)
            self.parent._outputs += self._outputs
        else:
            self._flow.install_outputs(loop_term, self._outputs)

    def check_open(self, action: str) -> None:
        """Raise InterfaceError outside the block."""
        if not self._open:
            raise InterfaceError(f"{action} inside the loop's with block", hint="move it there")

    def check_inside(self, term: Term) -> None:
        """Raise InterfaceError if the term belongs to a loop that is neither this one nor encloses it."""
        if term.scope is not None and not any(term.scope is level for level in enclosing_scopes(self)):
            raise InterfaceError("the collection belongs to another loop", hint="leave() that loop first")


def _no_node(refs: Sequence[Ref]) -> plan.AnyNode:
    raise AssertionError("assembly makes these nodes itself")


def iterate(
    flow: Flow, start: Collection, body: Callable[[Collection], Collection], limit: int | None
) -> Collection:
    """Return the limit of ``start``, ``body(start)``, ``body(body(start))`` and so on."""
    return _compute_fixed_point(start._rows, lambda variable, _: body(variable), flow, start._rows, limit)


def recursive(
    model: Collection, body: Callable[[Collection, LoopScope], Collection], limit: int | None = None
) -> Collection:
    """Return the fixed point of ``c = body(c, loop)`` from the empty collection.

    ``c`` has the columns of ``model``. Unlike ``Collection.iterate``, nothing enters before the first
    round: ``body`` adds the initial rows in every round, so each row needs support in each round. With
    a ``limit``, only that number of rounds runs.
    """
    return _compute_fixed_point(model._rows, body, model._flow, None, limit)


def _compute_fixed_point(
    model: Rows,
    body: Callable[[Collection, LoopScope], Collection],
    flow: Flow,
    start: Rows | None,
    limit: int | None,
) -> Collection:
    flags = model.flags
    while True:
        with flow.scope(limit=limit) as loop:
            variable = loop.declare_variable(start, model.names, model.types, flags)
            result = align_columns(
                body(variable, loop)._rows,
                model,
                "the body of iterate" if start else "the body of the recursion",
            )
            widened = tuple(a or b for a, b in zip(flags, result.flags, strict=True))
            result_collection = Collection(flow, result)
            # A column became nullable: restart with it nullable from the first round on.
            variable.set(variable if widened != flags else result_collection)
            if widened == flags:
                return loop.leave(result_collection)
            loop.close_outputs()
        flags = widened
