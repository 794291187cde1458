"""Scripts: splits a text into statements and runs them one after another.

``may_share_step`` and ``is_light`` classify a text without parsing it. A text may share a step in a
group commit if it is an INSERT that reads no table or a keyed change. It is light if it takes no
longer than a thread switch.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kpg.compiler.sql.parameterize.normalization import (
    NormalizedStatement,
    constant_types,
    normalize_statement,
)
from kpg.compiler.sql.parameterize.value_lists import MAX_SHORT_TEXT as SHORT_SCRIPT
from kpg.compiler.sql.parameterize.value_lists import parse_script
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parameters import Binder, Parameters, may_have_placeholders, number_placeholders
from kpg.compiler.sql.parse.parser import parse
from kpg.execute.changes.insert_values import INSERT, ConstantInsert, parse_inserts, parse_mixed, run_insert
from kpg.execute.queries import external_tables
from kpg.execute.registry import Outcome
from kpg.execute.statements import execute
from kpg.runtime.errors import InterfaceError
from kpg.runtime.gc_pause import LazyModule
from kpg.session.engine import Engine

if TYPE_CHECKING:
    from kpg.execute.queries import plan_cache
    from kpg.session import cancel
else:
    plan_cache = LazyModule("kpg.execute.queries.plan_cache")
    cancel = LazyModule("kpg.session.cancel")

T = TypeVar("T")
LIMITS: Final = ("statement_timeout", "statement_memory_limit")
EXECUTE: Final = "execute"
PREFIX_LENGTH: Final = 30
"""Characters that identify a statement's first word."""


def outcomes_within_limits(engine: Engine, text: str, parameters: Parameters | None) -> Iterator[Outcome]:
    """Yield the :func:`outcomes`, each statement within the limits of the database's settings."""
    settings = engine.catalog.settings
    if not (settings and any(map(settings.get, LIMITS))):
        return _run_each(engine, outcomes(engine, text, parameters))
    with cancel.within_limits(engine.interrupt, settings):
        return _run_each(engine, outcomes(engine, text, parameters))


def _run_each(engine: Engine, all_outcomes: Iterator[Outcome]) -> Iterator[Outcome]:
    """Yield outcomes, each computed within the limits that are set before it."""
    end: Any = object()
    while True:
        settings = engine.catalog.settings
        if settings and any(map(settings.get, LIMITS)):
            with cancel.within_limits(engine.interrupt, settings):
                outcome = next(all_outcomes, end)
        else:
            outcome = next(all_outcomes, end)
        if outcome is end:
            return
        yield outcome


def outcomes(engine: Engine, text: str, parameters: Parameters | None) -> Iterator[Outcome]:
    """Yield the outcome of each statement of a script, when it runs; the whole text is parsed first."""

    fast_statements: Sequence[ConstantInsert | ast.Statement] | None = None
    if text[:PREFIX_LENGTH].lstrip()[: len(INSERT)].lower() == INSERT:
        fast_statements = parse_inserts(engine, text, parameters)
    if fast_statements is None and len(text) > SHORT_SCRIPT and not parameters and engine.can_use_cache:
        fast_statements = parse_mixed(engine, text)
    if fast_statements is not None:
        return _run_fast(engine, text, parameters, fast_statements)
    if engine.can_use_cache:
        again = _run_cached(engine, text, parameters)
        if again is not None:
            return again
    found = statements(engine, text, parameters)
    return (run_with_external(engine, statement, execute) for statement in found)


def _run_fast(
    engine: Engine,
    text: str,
    parameters: Parameters | None,
    fast_statements: Sequence[ConstantInsert | ast.Statement],
) -> Iterator[Outcome]:
    """Yield the outcomes of a script with constant INSERTs; those that need the parser are parsed once."""
    parsed: list[ast.Statement] = []

    def parse_statement(place: int) -> ast.Statement:
        if not parsed:
            parsed.extend(statements(engine, text, parameters))
        return parsed[place]

    for place, one in enumerate(fast_statements):
        if isinstance(one, ConstantInsert):
            yield run_insert(engine, one, parse_statement, place)
        else:
            yield run_with_external(engine, one, execute)


def _run_cached(engine: Engine, text: str, parameters: Parameters | None) -> Iterator[Outcome] | None:
    """Return the outcome of a single statement by a cached plan; None if there is none."""
    statement = _expand_execute(engine, text) if engine.prepared_statements and not parameters else None
    statement = statement or normalize_statement(text, parameters)
    if statement is None:
        return None
    if engine.plan_cache.system_queries.get(statement.normalized_text.text):
        return None if parameters else plan_cache.cached_result(engine, text)
    pending = engine.executor.tables.has_pending
    key = (
        statement.normalized_text.text,
        constant_types(statement.parameter_constants),
        engine.catalog.resolution_key,
    )
    version = engine.catalog.version
    template = None
    if pending and len(engine.plan_cache.keyed_texts):
        template = plan_cache.find_keyed_template(engine, statement, (*key, False))
    if template is None and not engine.plan_cache.is_repeated((*key, pending, version)):
        return None
    template = template or plan_cache.find_template(engine, statement, (*key, pending))
    if template is None:
        return None

    def run_generally() -> Outcome:
        (found,) = statements(engine, text, parameters)
        return run_with_external(engine, found, execute)

    def outcome() -> Iterator[Outcome]:
        same = (version, pending) == (engine.catalog.version, engine.executor.tables.has_pending)
        yield plan_cache.run_template(engine, template, statement, run_generally) if same else run_generally()

    return outcome()


def _expand_execute(engine: Engine, text: str) -> NormalizedStatement | None:
    """Return an EXECUTE of constants as the prepared statement."""
    if text[:PREFIX_LENGTH].lstrip()[: len(EXECUTE)].lower() != EXECUTE:
        return None
    return plan_cache.expand_execute(engine, text)


def statements(engine: Engine, text: str, parameters: Parameters | None) -> list[ast.Statement]:
    """Return the statements of a script with parameters bound; an error fails the transaction."""
    with engine.transactions.failing_on_error():
        return bind_script(text, parameters)


def bind_script(text: str, parameters: Parameters | None) -> list[ast.Statement]:
    """Return the statements of a script with parameters bound."""
    by_position = parameters is not None and not hasattr(parameters, "keys")
    binder = Binder(() if parameters is None else parameters)
    parsed = parse_text(number_placeholders(text) if by_position else text)
    bound = [binder.bind(statement) for statement in parsed] if may_have_placeholders(text) else parsed
    binder.finish()
    _check_no_view_parameters(parsed, bound)
    return bound


def parse_text(text: str) -> list[ast.Statement]:
    """Return the statements of a script, which may have long lists of constants."""
    if len(text) <= SHORT_SCRIPT:
        return parse(text)

    return parse_script(text)


def run_with_external(
    engine: Engine, statement: ast.Statement, run: Callable[[Engine, ast.Statement], T]
) -> T:
    """Run a statement that may read files and frames."""
    try:
        return run(engine, external_tables.attach_external(engine, statement))
    finally:
        engine.drop_attached()


def _check_no_view_parameters(parsed: list[ast.Statement], bound: list[ast.Statement]) -> None:
    """Raise InterfaceError for a view with parameters: its text is stored."""
    for before, after in zip(parsed, bound, strict=True):
        if isinstance(before, ast.CreateView) and before is not after:
            raise InterfaceError("a view cannot have parameters", hint="write the values into its text")


WORD: Final = re.compile(r"\s*(select|insert|update|delete)\b", re.IGNORECASE)
PLAIN_INSERT: Final = re.compile(r"\s*insert\b(?!.*\b(?:select|default|with)\b).*\bvalues\b", re.I | re.S)
KEYED_COMMANDS: Final = ("update", "delete")
MAX_TEXTS: Final = 1024
"""Classified texts that are cached."""
MAX_CACHED_LENGTH: Final = 1_000
"""Characters of a text that is cached."""
MAX_LOGGED_LENGTH: Final = 2_000
"""Characters of a statement that are logged."""
SECRET: Final = re.compile(r"""(\bpassword\b[\s=(]*)(?:e|u&|n)?['$"].*""", re.IGNORECASE | re.DOTALL)


def redact(text: str) -> str:
    """Return a statement for the log: truncated, and cut where a password begins."""
    text = SECRET.sub(r"\1<hidden>", text.strip())
    return text if len(text) <= MAX_LOGGED_LENGTH else f"{text[:MAX_LOGGED_LENGTH]}..."


@lru_cache(MAX_TEXTS)
def _classify_cached(text: str) -> tuple[str | None, bool]:
    found = WORD.match(text)
    if found is None or ";" in text.rstrip().rstrip(";"):
        return None, False
    return found[1].lower(), PLAIN_INSERT.match(text) is not None


def _classify(text: str) -> tuple[str | None, bool]:
    """Return the first word of a statement, and whether it only inserts rows."""
    return _classify_cached(text) if len(text) <= MAX_CACHED_LENGTH else _classify_cached.__wrapped__(text)


def command_of(text: str) -> str | None:
    """Return the first word of a text that is one statement and may have a cached plan; None for others."""
    return _classify(text)[0]


def may_share_step(text: str) -> "bool | Callable[[Engine], bool]":
    """Whether a text may share its step: an INSERT that reads nothing, or a keyed change."""
    word, adds = _classify(text)
    return partial(_is_keyed, text) if word in KEYED_COMMANDS else adds


def is_light(text: str, engine: "Engine") -> bool:
    """Whether a text takes about as long as a thread switch: a plain INSERT or a keyed lookup."""
    return len(text) <= MAX_CACHED_LENGTH and (_classify_cached(text)[1] or _is_keyed(text, engine))


def _is_keyed(text: str, engine: "Engine") -> bool:
    if not len(engine.plan_cache.keyed_texts):
        return False
    return plan_cache.is_keyed_text(engine, text)
