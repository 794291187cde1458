"""Functions whose bodies are run: what plans call, and each call.

A plan runs inside a step, in which no query can be asked. So a body that asks some is not run there: the call
fails, its arguments are noted, and when the step is over the bodies are run for all of them; then the plan
runs again, and finds their values. That ends when nothing new is called.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kpg.blocks.evaluating import Evaluator
from kpg.blocks.frame import Frame, Record, Value, Variable, plain_of, row_words, word_of
from kpg.blocks.purity import is_pure
from kpg.blocks.returning import Returned
from kpg.blocks.running import Running
from kpg.compiler.permitted import definer_of
from kpg.compiler.routines import Routine
from kpg.compiler.sql.blocks.parser import block_of
from kpg.compiler.sql.blocks.tree import Dynamic
from kpg.compiler.sql.bodies import texts_of
from kpg.runtime.errors import DataError, Error, NotSupportedError
from kpg.runtime.functions.named import Named
from kpg.runtime.functions.registry import Memoized, NullRule, Overload, ScalarFunction, Signature
from kpg.runtime.functions.tables import Listing, RowFunction, RowOverload, RowSignature
from kpg.runtime.plan import Mfp
from kpg.runtime.types import NULL, TEXT, Kind, Type

if TYPE_CHECKING:
    from kpg.engine.engine import Engine

T = TypeVar("T")
DEEPEST: Final = 60
"""How many bodies may run within each other."""
ROUNDS: Final = 10_000
"""How often a plan may run again: calls of calls of calls."""
IN_FROM: Final = " in FROM"
"""What follows the label of a function of one row, where plans take it for one of rows."""
MOST_FAILED: Final = 1024
"""Failures that are remembered: those of a step, which may ask for each of them some times."""


def _endless() -> DataError:
    return DataError(
        f"functions call each other more than {DEEPEST} deep",
        hint="a function that calls itself must end, by IF: all branches of a CASE may be computed",
    )


class Round:
    """What the bodies that a statement calls have given, and what is still to be found out."""

    def __init__(self) -> None:
        self.known: dict[tuple[Routine, tuple[int, ...]], Any] = {}
        self.wanted: dict[tuple[Routine, tuple[int, ...]], None] = {}


class Procedures:
    """The bodies of one database."""

    def __init__(self, engine: "Engine") -> None:
        self.engine = engine
        self.evaluator = Evaluator(engine)
        self._named: dict[Routine, Named[Any]] = {}
        self._rounds: list[Round] = []
        self._depth = 0
        self._failed: dict[tuple[Routine, tuple[int, ...]], str] = {}

    @property
    def runs(self) -> bool:
        """Whether a body is run now."""
        return self._depth > 0

    def named(self, routine: Routine) -> Named[Any]:
        """What plans call. That of a pure function is the same each time; of others results are not kept."""
        known = self._named.get(routine)
        if known is not None:
            return known
        label = routine.label + (IN_FROM if routine.kind == "rows" else "")
        name: Named[Any] = Named(label, self.engine.catalog.number_function())
        name.definition = self.definition(routine, name)
        if routine.pure:
            self._named[routine] = name
        return name

    def adopt(self, routine: Routine, name: Named[Any]) -> None:
        """Let a name of a plan that was kept carry what it calls."""
        if name.partition("#")[0].endswith(IN_FROM):
            routine = replace(routine, kind="rows")
        name.definition = self.definition(routine, name)
        self._named[routine] = name

    def word(self, mfp: Mfp, type_: Type) -> int:
        """The value of an argument."""
        return self.evaluator.evaluate(mfp, (), type_).word

    def definition(self, routine: Routine, name: Named[Any]) -> ScalarFunction | RowFunction:
        """What computes the calls."""
        if routine.rows or routine.kind == "rows":
            return self._row_function(routine, name)
        result = TEXT if routine.result.name == "void" else routine.result

        def call(*values: object) -> object:
            found = self.called(routine, self._words(routine, values))
            return None if found is None else plain_of(found, self.evaluator.dictionary)

        how = Memoized(lambda _: call, takes_nulls=not routine.strict)
        overload = Overload(lambda types: Signature(types, result), how)
        rule = NullRule.PROPAGATE if routine.strict else NullRule.OWN
        return ScalarFunction(name, routine.label, routine.body, {}, (overload,), rule)

    def _row_function(self, routine: Routine, name: Named[Any]) -> RowFunction:
        def build(args: tuple[Type, ...], types: tuple[Type, ...]) -> Callable[..., Any]:
            def rows(*values: object) -> list[tuple[object, ...]]:
                given, found = self._listed(routine, self._words(routine, values))
                if len(given) != len(types):
                    raise ValueError(f"{len(given)} columns are given, {len(types)} are declared")
                pairs = list(zip(given, types, strict=True))
                return [
                    tuple(self._plain(of, to, word) for (of, to), word in zip(pairs, row, strict=True))
                    for row in found
                ]

            return rows

        overload = RowOverload(
            lambda types: RowSignature(types, routine.columns, ()),
            Listing(build, takes_nulls=not routine.strict),
        )
        return RowFunction(name, routine.label, routine.body, {}, (overload,))

    def _listed(
        self, routine: Routine, words: tuple[int, ...]
    ) -> tuple[tuple[Type, ...], list[tuple[int, ...]]]:
        """The types and the rows of a call; a function that gives one row gives one."""
        if routine.kind != "rows":
            found: tuple[tuple[Type, ...], list[tuple[int, ...]]] = self.called(routine, words)
            return found
        value = self.called(replace(routine, kind="function"), words)
        if value is None:
            return (), []
        if value.type.kind is not Kind.RECORD:
            return (value.type,), [(value.word,)]
        return value.type.parts, [tuple(row_words(value, self.evaluator.dictionary))]

    def _plain(self, source: Type, target: Type, word: int) -> object:
        return plain_of(self.evaluator.cast(Value(source, word), target), self.evaluator.dictionary)

    def _words(self, routine: Routine, values: Sequence[object]) -> tuple[int, ...]:
        pairs = zip(values, routine.parameters, strict=False)
        return tuple(word_of(value, one.type, self.evaluator.dictionary) for value, one in pairs)

    def called(self, routine: Routine, words: tuple[int, ...]) -> Any:
        """What a call within a plan gives: a value, or rows of words."""
        stepping = self.engine.executor.stepping
        if not stepping or routine.pure:
            return self._run_now(routine, words, stepping=stepping)
        if not self._rounds:
            raise ValueError(f"function {routine.name}, which reads or changes tables, cannot be called here")
        now = self._rounds[-1]
        key = (routine, words)
        if key in now.known:
            return now.known[key]
        now.wanted[key] = None
        raise ValueError(f"function {routine.name} has not been run")

    def _run_now(self, routine: Routine, words: tuple[int, ...], *, stepping: bool) -> Any:
        """Run a body; one that has failed before in a step, and reads nothing, fails again at once.

        Who computes an expression that fails does so again for the message: functions that call themselves
        would run twice as often at each level.
        """
        key = (routine, words)
        if stepping and key in self._failed:
            raise ValueError(self._failed[key])
        try:
            return self.run(routine, words)
        except Error as error:
            if not stepping:
                raise
            if len(self._failed) >= MOST_FAILED:
                self._failed.clear()
            self._failed[key] = error.message
            raise ValueError(error.message) from error

    def computed(self, run: Callable[[], T]) -> T:
        """What something gives that may call bodies."""
        now = Round()
        self._rounds.append(now)
        try:
            for _ in range(ROUNDS):
                now.wanted.clear()
                try:
                    result = run()
                except DataError:
                    if not now.wanted:
                        raise
                else:
                    if not now.wanted:
                        return result
                for routine, words in list(now.wanted):
                    now.known[routine, words] = self.run(routine, words)
        finally:
            self._rounds.pop()
        raise NotSupportedError("a query whose functions call each other without end is not supported")

    # A call

    def run(self, routine: Routine, words: Sequence[int], *, may_end: bool = False) -> Any:
        """Run a body: the value that it gives, None for none, or the words of its rows."""
        frame = Frame(routine.name.rpartition(".")[2])
        for place, (one, word) in enumerate(zip(routine.parameters, words, strict=True), 1):
            variable = self._variable(one.name or f"${place}", one.type, word)
            frame.declare(f"${place}", variable)
            if one.name:
                frame.declare(one.name, variable)
        for name, type_ in routine.outs:
            if frame.find(name.lower()) is None:
                frame.declare(name, self._variable(name, type_, NULL))
        outs = [name for name, _ in routine.outs]
        returned = Returned(routine.result, outs, rows=routine.rows, may_end=may_end)
        self.run_in(routine, frame, returned)
        return (returned.types, returned.rows) if routine.rows else returned.value

    def run_in(self, routine: Routine, frame: Frame, returned: Returned) -> None:
        """Run a body with these variables."""
        self.engine.touched += 1
        self._depth += 1
        if self._depth > DEEPEST:
            self._depth = 0
            raise _endless()
        before = self._depth
        try:
            with self._as_declared(routine):
                if routine.language == "plpgsql":
                    Running(self.evaluator, frame, returned).run(block_of(routine.body))
                else:
                    self._run_sql(routine, frame, returned)
        except RecursionError:
            raise _endless() from None
        except Error as error:
            error.span = None
            raise
        finally:
            self._depth = before - 1

    @contextmanager
    def _as_declared(self, routine: Routine) -> Iterator[None]:
        """Within the block who asks is the owner of a function that has the owner's rights, and the search
        path is the one that the function has.
        """
        catalog = self.engine.catalog
        before, path = catalog.asker, catalog.search_path
        if routine.definer:
            catalog.asker = definer_of(catalog, routine)
        catalog.search_path = path if routine.path is None else routine.path
        try:
            yield
        finally:
            catalog.asker, catalog.search_path = before, path

    def _run_sql(self, routine: Routine, frame: Frame, returned: Returned) -> None:
        given = None
        for text in texts_of(routine.body):
            given = self.evaluator.run(frame, Dynamic(text))
        returned.of_query(self.evaluator, given)

    def _variable(self, name: str, type_: Type, word: int) -> Variable | Record:
        if type_.kind is not Kind.RECORD:
            return Variable(name, type_, word)
        made = Record(name, type_.labels, type_.parts)
        made.words = row_words(Value(type_, word), self.evaluator.dictionary)
        return made


def settled(engine: "Engine", routine: Routine) -> Routine:
    """A routine with what is to be known of its body."""
    return replace(routine, runs=True, pure=is_pure(routine, engine.catalog))
