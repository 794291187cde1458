"""Extensions: types, functions, aggregates, system relations, table stages and statements of a package.

A package creates an :class:`Extension` and names it in the entry point group ``kpg.extensions``. The methods
register in the engine's registries, for all databases of the process. A database has an extension after
``CREATE EXTENSION``, which a folder records; other databases do not find its names.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kpg.compiler.catalog.entries import Catalog, TableEntry
from kpg.compiler.sql.parse.parser import parse, register_parser
from kpg.compiler.sql.parse.reader import Reader
from kpg.compiler.sql.parse.statements import SessionStatement
from kpg.compiler.system.relations import Row, SystemRelation, register_relation
from kpg.execute import registry as statements
from kpg.execute.changes.table_pipeline import Stage, Write, register_stage
from kpg.execute.registry import Handler, Kind, Outcome
from kpg.runtime import extensions
from kpg.runtime.errors import InterfaceError, ProgrammingError
from kpg.runtime.functions import AggregateFunction, is_aggregate, is_function
from kpg.runtime.functions import registry as functions
from kpg.runtime.functions.aggregation import definition as aggregates
from kpg.runtime.functions.aggregation.definition import Basic, Invertible
from kpg.runtime.functions.registry import (
    MemoizedFunction,
    NullRule,
    Overload,
    Rule,
    ScalarFunction,
    Signature,
    VectorFunction,
)
from kpg.runtime.functions.table_functions import is_row_function
from kpg.runtime.functions.user_functions import algorithm_of_methods, argument_rule, translate_errors
from kpg.runtime.types import ERROR, MIN_WORD, NULL, Type
from kpg.runtime.types import Kind as TypeKind
from kpg.runtime.values.words import WordText, register_type
from kpg.session.engine import Engine

__all__ = ["Extension", "Kind", "Reader", "SessionStatement", "Write", "execute"]

Words = NDArray[np.int64]
Function = TypeVar("Function", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)
StatementClass = type[SessionStatement]


class Extension:
    """A named set of types, functions, aggregates, system relations, table stages and statements.

    Args:
        name: The name in ``CREATE EXTENSION`` and of the entry point, in lower case.
        version: The version that ``pg_extension`` shows.

    A *value* of a SQL type is here as the engine has it: ``bool``, ``int`` (also for dates, unscaled
    decimals and the types of extensions), ``float``, ``str``, and None for NULL. Functions and aggregates
    must be deterministic: a deleted row is computed again and retracted.
    """

    def __init__(self, name: str, version: str = "1.0") -> None:
        if not name.isidentifier() or name != name.lower():
            raise InterfaceError(f"{name!r} is no name of an extension", hint="lower-case letters and digits")
        self.name = name
        self.version = version
        self._types: dict[str, Type] = {}
        self._functions: set[str] = set()
        extensions.declare(self)

    @property
    def types(self) -> tuple[Type, ...]:
        """Its types."""
        return tuple(self._types.values())

    @property
    def functions(self) -> frozenset[str]:
        """Names of its functions and aggregates, without overloads of built-in functions."""
        return frozenset(self._functions)

    def type(self, name: str, parse: Callable[[str], int], show: Callable[[int], str]) -> Type:
        """Define a type whose values are words, integers of 64 bits; values compare as their words.

        Args:
            name: The type's name, in lower case.
            parse: From a text to the word. ValueError for invalid text. Equal values have equal words.
            show: From the word to the text. It is also the value in Python and Arrow results.
        """
        type_ = Type(TypeKind.EXTENSION, labels=(self.name,), name=name)
        register_type(type_, WordText(parse, show))
        self._types[name] = type_
        return type_

    def function(
        self,
        args: Iterable[Type],
        returns: Type,
        *,
        name: str = "",
        columns: bool = False,
        nulls: bool = False,
    ) -> Callable[[Function], Function]:
        """Return a decorator that defines a scalar function, or an overload of one.

        Args:
            args: Types of the arguments.
            returns: Type of the result.
            name: The SQL name, by default the Python name. With an argument of an extension's type it may
                be a built-in function or operator, such as ``length`` or ``add`` (``+``).
            columns: The function takes and returns numpy columns of words, ``int64[n]``, which numba may
                compile. It is called without rows that have NULLs. Otherwise it takes values.
            nulls: A function of values is called for NULLs too. Otherwise NULL arguments give NULL.
        """
        types = tuple(args)

        def define(function: Function) -> Function:
            how = _over_words(function) if columns else _over_values(function, nulls=nulls)
            if columns and (nulls or any(type_.is_interned for type_ in (*types, returns))):
                raise InterfaceError("a function of columns takes words without NULLs, not texts")
            overload = Overload(argument_rule(types, returns), how)
            self._add_overload(
                name or function.__name__, types, overload, function.__doc__ or "", nulls=nulls
            )
            return function

        return define

    def _add_overload(
        self, name: str, types: tuple[Type, ...], overload: Overload, doc: str, *, nulls: bool
    ) -> None:
        accepts = f"({', '.join(map(str, types))})"
        is_own = is_function(name) and functions.lookup(name).extension == self.name
        if is_aggregate(name) or is_row_function(name):
            raise InterfaceError(f'"{name}" is a function already', hint="choose another name")
        if is_function(name) and not is_own:
            if all(type_.kind is not TypeKind.EXTENSION for type_ in types):
                hint = "overloads of it have an argument of an extension's type"
                raise InterfaceError(f'"{name}" is a function already', hint=hint)
            overload = replace(overload, rule=_only_for_extension_types(overload.rule))
            functions.add_overloads(name, accepts, overload)
            return
        known = functions.lookup(name).overloads if name in self._functions else ()
        rule = NullRule.CALLED_ON_NULL if nulls else NullRule.PROPAGATE
        functions.register_function(
            ScalarFunction(name, accepts, doc, {}, (overload, *known), rule, extension=self.name)
        )
        self._functions.add(name)

    def aggregate(self, args: Iterable[Type], returns: Type, *, name: str = "") -> Callable[[Class], Class]:
        """Return a class decorator that defines an aggregate.

        The methods are ``initialize()``, ``add(state, *values)``, ``finish(state)`` and, optionally,
        ``subtract(state, *values)`` and ``merge(state, other)``, which return a state or a value. They
        obey the laws of :class:`kpg.runtime.functions.aggregation.definition.Algorithm`. With
        ``subtract`` a changed row costs O(change), without it O(group). Rows whose first operand is NULL
        do not count, and the aggregate over no rows is NULL.
        """
        types = tuple(args)

        def define(algebra: Class) -> Class:
            called = (name or algebra.__name__).lower()
            is_own = is_aggregate(called) and aggregates.lookup_aggregate(called).extension == self.name
            if is_function(called) or is_row_function(called) or (is_aggregate(called) and not is_own):
                raise InterfaceError(f'"{called}" is a function already', hint="choose another name")
            methods = algebra()
            algorithm = algorithm_of_methods(methods, [_same] * len(types), _same)
            aggregates.register(
                AggregateFunction(
                    called,
                    f"({', '.join(map(str, types))})",
                    algebra.__doc__ or "",
                    {},
                    argument_rule(types, returns),
                    lambda _: algorithm,
                    Basic() if algorithm.subtract is None else Invertible(),
                    extension=self.name,
                )
            )
            self._functions.add(called)
            return algebra

        return define

    def relation(
        self, name: str, columns: Iterable[tuple[str, Type]]
    ) -> Callable[[Callable[[Catalog], Iterable[Row]]], Callable[[Catalog], Iterable[Row]]]:
        """Return a decorator that defines a system relation: a function from the catalog to rows of values.

        It is computed for each query, and views over it are not maintained.
        """

        def define(rows: Callable[[Catalog], Iterable[Row]]) -> Callable[[Catalog], Iterable[Row]]:
            relation = SystemRelation(
                tuple(columns), lambda catalog: iter(rows(catalog)), is_cacheable=False, extension=self.name
            )
            register_relation(name, relation)
            return rows

        return define

    def table_stage(
        self, name: str, applies: Callable[[TableEntry], bool]
    ) -> Callable[[Callable[[Write, Words], Words]], Callable[[Write, Words], Words]]:
        """Return a decorator that defines a check of new rows, also of UPDATE, MERGE, COPY and loads.

        The function takes what writes, and the rows as columns of words, ``int64[width, n]``, with their
        generated columns. It returns the rows, perhaps completed, or raises an error of kpg.

        Args:
            name: The stage's name.
            applies: Whether it checks the rows of a table.
        """

        def define(check: Callable[[Write, Words], Words]) -> Callable[[Write, Words], Words]:
            stage = Stage(name, check)
            register_stage(
                lambda catalog, entry: self.name in catalog.extensions and applies(entry), lambda: stage
            )
            return check

        return define

    def statement(
        self,
        word: str,
        statement: StatementClass,
        parse: Callable[[Reader], SessionStatement],
        kind: Kind = Kind.READ,
    ) -> Callable[[Handler], Handler]:
        """Return a decorator that defines a statement by its handler, ``handler(engine, statement)``.

        Args:
            word: The first word of the statement; built-in statements take precedence.
            statement: The class of the parsed statement, a dataclass with the field ``span`` and a ``tag``.
            parse: From a reader, at the first word, to the statement.
            kind: Whether it reads, or changes rows or definitions.
        """

        def define(handler: Handler) -> Handler:
            def run(engine: Engine, parsed: Any) -> Outcome:
                if self.name not in engine.catalog.extensions:
                    raise ProgrammingError(
                        f"{word.upper()} is a statement of an extension that the database lacks",
                        span=parsed.span,
                        hint=f"CREATE EXTENSION {self.name}",
                    )
                return handler(engine, parsed)

            register_parser(word, parse)
            statements.register(statement, kind, run)
            return handler

        return define


def execute(engine: Engine, text: str) -> Outcome:
    """Run SQL within a statement of an extension; return the last result."""
    outcome: Outcome = None
    for statement in parse(text):
        outcome = engine.nested_execution.execute(engine, statement)
    return outcome


def _same(value: Any) -> Any:
    return value


def _only_for_extension_types(rule: Rule) -> Rule:
    """Return a rule that also demands an argument of an extension's type, so that literals stay texts."""

    def apply(types: tuple[Type, ...]) -> Signature | None:
        return rule(types) if any(type_.kind is TypeKind.EXTENSION for type_ in types) else None

    return apply


def _over_values(function: Callable[..., Any], *, nulls: bool) -> MemoizedFunction:
    def call(*values: object) -> object:
        with translate_errors():
            return function(*values)

    return MemoizedFunction(lambda _: call, takes_nulls=nulls)


def _over_words(function: Callable[..., Words]) -> VectorFunction:
    """Return the function over the rows without NULLs and errors.

    If it fails, each row is computed by itself, so that only failing rows are errors.
    """

    def call(*columns: Words) -> Words:
        try:
            return np.asarray(function(*columns), dtype=np.int64)
        except Exception:
            if len(columns[0]) == 1:
                return np.full(1, ERROR, dtype=np.int64)
            rows = range(len(columns[0]))
            return np.concatenate([call(*(column[row : row + 1] for column in columns)) for row in rows])

    def apply(*columns: Words) -> Words:
        args = np.stack(columns)
        result = np.full(args.shape[1], NULL, dtype=np.int64)
        result[(args == ERROR).any(axis=0)] = ERROR
        usable = np.flatnonzero((args >= MIN_WORD).all(axis=0))
        if len(usable):
            result[usable] = call(*np.ascontiguousarray(args[:, usable]))
        return result

    return VectorFunction(lambda _: apply, may_return_null=True)
