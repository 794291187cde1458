"""A body of PL/pgSQL as it runs: its statements one after the other."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, assert_never

from kpg.blocks import assigning, cursors, raising
from kpg.blocks.conditions import fits
from kpg.blocks.evaluating import NOTHING, Evaluator, Given
from kpg.blocks.frame import Frame, Record, Value, Variable
from kpg.blocks.returning import Returned
from kpg.compiler.sql.blocks import tree as ast
from kpg.engine.transaction import State
from kpg.runtime.errors import (
    DataError,
    Error,
    NotSupportedError,
    ProgrammingError,
    RaisedError,
)
from kpg.runtime.records import dataclass
from kpg.runtime.types import BIGINT, BOOLEAN, INTEGER, TEXT

if TYPE_CHECKING:
    from kpg.statements.cursors import Cursor

TRUE: Final = 1


@dataclass(frozen=True, slots=True)
class Leaving:
    """The rest of a body is passed over: by EXIT or CONTINUE, or by RETURN."""

    label: str = ""
    goes_on: bool = False
    returns: bool = False


RETURNS: Final = Leaving(returns=True)


class Running:
    """One call of a body."""

    def __init__(self, evaluator: Evaluator, frame: Frame, returned: Returned) -> None:
        self.evaluator = evaluator
        self.engine = evaluator.engine
        self.frame = frame
        self.returned = returned
        self.count = 0
        self._caught: list[Error] = []
        frame.declare("found", Variable("found", BOOLEAN, 0))

    def run(self, block: ast.Block) -> None:
        """All of it."""
        left = self.block(block)
        if left is None:
            self.returned.end(self.evaluator, self.frame)
        elif not left.returns:
            raise ProgrammingError("EXIT or CONTINUE needs a loop or a block of that label")

    def body(self, statements: ast.Body) -> Leaving | None:
        """Some statements; what has the rest be passed over, if anything."""
        for statement in statements:
            self.engine.interrupt.check()
            left = self.statement(statement)
            if left is not None:
                return left
        return None

    def statement(self, statement: ast.Statement) -> Leaving | None:
        """One statement."""
        match statement:
            case ast.Assign(target=target, value=value):
                assigning.assign(self.evaluator, self.frame, target, value)
            case ast.Block():
                return self.block(statement)
            case ast.If():
                return self._if(statement)
            case ast.Case():
                return self._case(statement)
            case ast.Loop():
                return self._loop(statement)
            case ast.ForNumbers():
                return self._numbers(statement)
            case ast.ForRows():
                return self._rows(statement)
            case ast.ForEach():
                return self._each(statement)
            case ast.Exit():
                if not statement.condition or self.evaluator.truth(self.frame, statement.condition):
                    return Leaving(statement.label.lower(), statement.goes_on)
            case ast.Return(value=value):
                self.returned.give(self.evaluator, self.frame, value)
                return RETURNS
            case _:
                self._simple(statement)
        return None

    def _simple(self, statement: ast.Statement) -> None:
        match statement:
            case ast.ReturnNext(value=value):
                self.returned.add(self.evaluator, self.frame, value)
            case ast.ReturnQuery(query=query):
                given = self.evaluator.rows(self.frame, query)
                self.returned.extend(self.evaluator, given)
                self._counted(given.words.shape[1])
            case ast.Raise():
                raising.raise_(
                    self.evaluator, self.frame, statement, self._caught[-1] if self._caught else None
                )
            case ast.Assert():
                self._assert(statement)
            case ast.Perform(query=query):
                self._counted(self.evaluator.rows(self.frame, ast.Dynamic(query)).words.shape[1])
            case ast.Sql():
                self._sql(statement)
            case ast.Diagnostics():
                self._diagnostics(statement)
            case ast.OpenCursor() | ast.FetchCursor() | ast.CloseCursor():
                found = cursors.run(self.evaluator, self.frame, statement)
                if found is not None:
                    self._counted(found)
            case ast.End(what=what):
                self._end(what)
            case (
                ast.Assign()
                | ast.Block()
                | ast.If()
                | ast.Case()
                | ast.Loop()
                | ast.ForNumbers()
                | ast.ForRows()
                | ast.ForEach()
                | ast.Exit()
                | ast.Return()
            ):
                raise AssertionError(statement)
            case _:
                assert_never(statement)

    def _counted(self, count: int) -> None:
        self.count = count
        self._found(count > 0)

    def _found(self, found: bool) -> None:
        variable = self.frame.find("found")
        assert isinstance(variable, Variable)
        variable.value = Value(BOOLEAN, int(found))

    # Blocks and branches

    def block(self, block: ast.Block) -> Leaving | None:
        """A block, which may catch errors."""
        depth = self.frame.depth
        self.frame.enter(block.label)
        try:
            for one in block.declarations:
                assigning.declare(self.evaluator, self.frame, one)
            left = self._guarded(block) if block.handlers else self.body(block.body)
        finally:
            self.frame.leave_to(depth)
        ends = left is not None and not left.returns and left.label and left.label == block.label.lower()
        return None if ends and not (left and left.goes_on) else left

    def _guarded(self, block: ast.Block) -> Leaving | None:
        transactions = self.engine.transactions
        guards = transactions.state is State.OPEN and not self.engine.executor.stepping
        name, depth = f"$block {transactions.depth}", self.frame.depth
        if guards:
            transactions.savepoint(name)
        try:
            left = self.body(block.body)
        except Error as error:
            if guards:
                transactions.rollback_to(name)
                transactions.release(name)
            self.frame.leave_to(depth)
            return self._handled(block, error)
        if guards and transactions.depth:
            transactions.release(name)
        return left

    def _handled(self, block: ast.Block, error: Error) -> Leaving | None:
        from kpg.listeners.states import state_of
        from kpg.listeners.told import told

        state = state_of(error)
        for handler in block.handlers:
            if not any(fits(condition, state) for condition in handler.conditions):
                continue
            code = self.evaluator.dictionary.code
            self.frame.declare("sqlstate", Variable("sqlstate", TEXT, code(state)))
            self.frame.declare("sqlerrm", Variable("sqlerrm", TEXT, code(told(error))))
            self._caught.append(error)
            try:
                return self.body(handler.body)
            finally:
                self._caught.pop()
        raise error

    def _if(self, statement: ast.If) -> Leaving | None:
        for condition, body in statement.branches:
            if self.evaluator.truth(self.frame, condition):
                return self.body(body)
        return self._otherwise(statement.otherwise, strict=statement.strict)

    def _case(self, statement: ast.Case) -> Leaving | None:
        for values, body in statement.branches:
            if self.evaluator.truth(self.frame, f"({statement.operand}) IN ({values})"):
                return self.body(body)
        return self._otherwise(statement.otherwise, strict=True)

    def _otherwise(self, body: ast.Body | None, *, strict: bool) -> Leaving | None:
        if body is not None:
            return self.body(body)
        if strict:
            raise RaisedError("case not found", state="20000", hint="CASE statement is missing ELSE part.")
        return None

    # Loops

    def _repeated(self, label: str, body: ast.Body, turns: Iterable[object]) -> Leaving | None:
        """A body for each turn; what is left to be passed over behind the loop."""
        for _ in turns:
            self.engine.interrupt.check()  # a body may have no statements
            left = self.body(body)
            if left is None:
                continue
            mine = not left.returns and left.label in ("", label.lower())
            if not mine:
                return left
            if not left.goes_on:
                return None
        return None

    def _within(self, label: str, run: Callable[[], Leaving | None]) -> Leaving | None:
        depth = self.frame.depth
        self.frame.enter(label)
        try:
            return run()
        finally:
            self.frame.leave_to(depth)

    def _loop(self, statement: ast.Loop) -> Leaving | None:
        def turns() -> Iterable[object]:
            while not statement.condition or self.evaluator.truth(self.frame, statement.condition):
                yield None

        return self._repeated(statement.label, statement.body, turns())

    def _numbers(self, statement: ast.ForNumbers) -> Leaving | None:
        bounds = [
            assigning.number(self.evaluator.value(self.frame, text, BIGINT), "a bound of FOR")
            for text in (statement.low, statement.high, statement.step or "1")
        ]
        low, high, step = bounds
        if step <= 0:
            raise DataError("BY value of FOR loop must be greater than zero")
        values = range(low, high - 1, -step) if statement.reverse else range(low, high + 1, step)
        variable = Variable(statement.variable, INTEGER)

        def turns() -> Iterable[object]:
            for value in values:
                variable.value = Value(INTEGER, value)
                yield None

        def run() -> Leaving | None:
            self.frame.declare(statement.variable, variable)
            return self._repeated(statement.label, statement.body, turns())

        left = self._within(statement.label, run)
        self._found(len(values) > 0)
        return left

    def _rows(self, statement: ast.ForRows) -> Leaving | None:
        cursor = cursors.of_loop(self.evaluator, self.frame, statement.query)
        if cursor is None:
            return self._over(statement, self.evaluator.rows(self.frame, statement.query))
        try:
            return self._over(statement, self.evaluator.given(cursor.rows), cursor)
        finally:
            cursors.closed(self.evaluator, cursor)

    def _over(self, statement: ast.ForRows, given: Given, cursor: "Cursor | None" = None) -> Leaving | None:
        count = given.words.shape[1]

        def turns() -> Iterable[object]:
            for place in range(count):
                if cursor is not None:
                    cursor.place = place + 1
                assigning.fill(self.evaluator, self.frame, statement.targets, given, place)
                yield None

        def run() -> Leaving | None:
            target = statement.targets[0]
            if (
                len(statement.targets) == 1
                and self.frame.resolve((target.lower(),)) is None
                and "." not in target
            ):
                self.frame.declare(target, Record(target))
            return self._repeated(statement.label, statement.body, turns())

        left = self._within(statement.label, run)
        self._found(count > 0)
        return left

    def _each(self, statement: ast.ForEach) -> Leaving | None:
        parts = cursors.elements(
            self.evaluator, self.evaluator.value(self.frame, statement.array), statement.slice
        )

        def turns() -> Iterable[object]:
            for part in parts:
                given = Given(("value",), (part.type,), cursors.column(part.word), 1)
                assigning.fill(self.evaluator, self.frame, statement.targets, given, 0)
                yield None

        left = self._within(statement.label, lambda: self._repeated(statement.label, statement.body, turns()))
        self._found(bool(parts))
        return left

    # Others

    def _sql(self, statement: ast.Sql) -> None:
        given = self.evaluator.run(self.frame, statement.statement)
        found = given.words.shape[1]
        if statement.statement.using is None and statement.statement.text[:4].lower() == "call":
            if found:
                targets = assigning.out_targets(self.engine, statement.statement.text, given.names)
                assigning.fill(self.evaluator, self.frame, targets, given, 0)
            return
        if statement.into:
            if statement.strict and found != 1:
                state, words = ("P0002", "no rows") if not found else ("P0003", "more than one row")
                raise RaisedError(f"query returned {words}", state=state)
            assigning.fill(self.evaluator, self.frame, statement.into, given, 0 if found else None)
            self._counted(min(found, 1))
            return
        is_query = statement.statement.using is None and given.types and given is not NOTHING
        if is_query and statement.statement.text.lstrip("( \n\t")[:6].lower() in ("select", "values"):
            raise ProgrammingError(
                "query has no destination for result data", hint="use PERFORM to discard its rows"
            )
        if statement.statement.using is None:
            self._counted(given.count)
        else:
            self.count = given.count

    def _assert(self, statement: ast.Assert) -> None:
        if not self.evaluator.truth(self.frame, statement.condition):
            message = self.evaluator.value(self.frame, statement.message, TEXT) if statement.message else None
            text = None if message is None else self.evaluator.text(message)
            raise RaisedError(text or "assertion failed", state="P0004")

    def _diagnostics(self, statement: ast.Diagnostics) -> None:
        if statement.stacked and not self._caught:
            raise ProgrammingError("GET STACKED DIAGNOSTICS cannot be used outside an exception handler")
        for target, item in statement.items:
            if statement.stacked:
                value = self.evaluator.of_text(raising.told(self._caught[-1], item))
            elif item == "ROW_COUNT":
                value = Value(BIGINT, self.count)
            else:
                value = self.evaluator.of_text("")
            found = self.frame.resolve((target.lower(),))
            if found is None:
                raise ProgrammingError(f'"{target}" is not a known variable')
            assigning.put(self.evaluator, found[0], found[1], value)

    def _end(self, what: str) -> None:
        if not what:
            return
        transactions = self.engine.transactions
        if not self.returned.may_end or transactions.depth:
            raise NotSupportedError(
                f"{what} here is not supported",
                hint="it may stand in a procedure that is called outside of transactions",
            )
        if what == "COMMIT":
            transactions.commit()
        else:
            transactions.rollback()
        transactions.begin()
