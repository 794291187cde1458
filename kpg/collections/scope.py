"""Loops: scopes in which collections are defined by each other, round by round."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kpg.collections.assembly import variable as variable_term
from kpg.collections.collection import Collection
from kpg.collections.columns import ColumnType, schema_of
from kpg.collections.expression import RowFunction, as_columns, coerced
from kpg.collections.rows import Rows, aligned, plain
from kpg.collections.term import EnterTerm, LeaveTerm, Level, LoopTerm, Term, VariableTerm, enclosing
from kpg.compiler.algebra.scalars import can_be_null
from kpg.runtime import plan
from kpg.runtime.errors import InterfaceError, ProgrammingError
from kpg.runtime.monitor import synchronized
from kpg.runtime.plan import Ref, user
from kpg.runtime.scalar import Column
from kpg.runtime.types import BIGINT, Type

if TYPE_CHECKING:
    from kpg.collections.dataflow import Dataflow
    from kpg.collections.outputs import Output


@synchronized()
class Variable(Collection):
    """A recursive collection: ``initial`` (or nothing), and from then on what it is ``set`` to."""

    def __init__(self, flow: "Dataflow", scope: "LoopScope", rows: Rows) -> None:
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

    def __init__(self, flow: "Dataflow", limit: int | None, error_at_limit: bool) -> None:
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

    def watch(self, term: Term, output: "Output", listener: int | None) -> None:
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
    flow: "Dataflow", start: Collection, body: Callable[[Collection], Collection], limit: int | None
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
    flow: "Dataflow",
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
