"""Scripts: splits a text into statements and runs them one after another.

``gathers`` and ``is_light`` classify a text without parsing it. ``gathers``: it may join a group commit, as
an INSERT that reads no table or a keyed change. ``is_light``: it takes no longer than a hand-over to another
thread.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kpg.compiler.sql.parameterize.normalization import Asked, asked, kinds
from kpg.compiler.sql.parameterize.value_lists import SHORT as SHORT_SCRIPT
from kpg.compiler.sql.parameterize.value_lists import parsed
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse.parameters import Binder, Parameters, has_marks, numbered
from kpg.compiler.sql.parse.parser import parse
from kpg.execute.changes.insert_values import INSERT, Inserting, insert, inserts, mixed
from kpg.execute.queries import external_tables
from kpg.execute.registry import Outcome
from kpg.execute.statements import execute
from kpg.gc_pause import LazyModule
from kpg.runtime.errors import InterfaceError
from kpg.session.engine import Engine

if TYPE_CHECKING:
    from kpg.execute.queries import plan_cache
    from kpg.session import cancel
else:
    plan_cache = LazyModule("kpg.execute.queries.plan_cache")
    cancel = LazyModule("kpg.session.cancel")

Given = TypeVar("Given")
LIMITS: Final = ("statement_timeout", "statement_memory_limit")
NO_LIMITS: Final = nullcontext()
EXECUTE: Final = "execute"
BEGINNING: Final = 30
"""So many letters tell what a text begins with."""


def limited_outcomes(engine: Engine, text: str, parameters: Parameters | None) -> Iterator[Outcome]:
    """As :func:`outcomes`, each statement within the limits that the database's own settings give it."""
    with _limits(engine):
        found = outcomes(engine, text, parameters)

    def each() -> Iterator[Outcome]:
        over = object()
        while True:
            with _limits(engine):
                outcome: Any = next(found, over)
            if outcome is over:
                return
            yield outcome

    return each()


def _limits(engine: Engine) -> AbstractContextManager[None]:
    settings = engine.settings
    if not any(map(settings.get, LIMITS)):
        return NO_LIMITS
    return cancel.limited(engine.interrupt, settings)


def outcomes(engine: Engine, text: str, parameters: Parameters | None) -> Iterator[Outcome]:
    """What each statement of a script gives, when it is reached; all of the text is read before."""

    def run(one: Inserting | ast.Statement, place: int) -> Outcome:
        if isinstance(one, Inserting):
            return insert(engine, one, lambda: whole()[place])
        return reading(engine, one, execute)

    @cache
    def whole() -> list[ast.Statement]:
        return statements(engine, text, parameters)

    known: Sequence[Inserting | ast.Statement] | None = None
    if text[:BEGINNING].lstrip()[: len(INSERT)].lower() == INSERT:
        known = inserts(engine, text, parameters)
    if known is None and len(text) > SHORT_SCRIPT and not parameters and engine.remembers:
        known = mixed(engine, text)
    if known is not None:
        return (run(one, place) for place, one in enumerate(known))
    if engine.remembers:
        again = _again(engine, text, parameters)
        if again is not None:
            return again
    found = statements(engine, text, parameters)
    return (reading(engine, statement, execute) for statement in found)


def _again(engine: Engine, text: str, parameters: Parameters | None) -> Iterator[Outcome] | None:
    """What the one statement of a text gives by a plan that there is; None if there is none."""
    statement = _executed(engine, text) if engine.prepared and not parameters else None
    statement = statement or asked(text, parameters)
    if statement is None:
        return None
    if engine.remembered.of_system.get(statement.normal.text):
        return None if parameters else plan_cache.answered(engine, text)
    pending = engine.executor.has_pending
    key = (statement.normal.text, kinds(statement.given), engine.catalog.outlook)
    version = engine.catalog.version
    template = None
    if pending and len(engine.remembered.keyed):
        template = plan_cache.kept_template(engine, statement, (*key, False))
    if template is None and not engine.remembered.comes_again((*key, pending, version)):
        return None
    template = template or plan_cache.template_of(engine, statement, (*key, pending))
    if template is None:
        return None

    def otherwise() -> Outcome:
        (found,) = statements(engine, text, parameters)
        return reading(engine, found, execute)

    def outcome() -> Iterator[Outcome]:
        same = (version, pending) == (engine.catalog.version, engine.executor.has_pending)
        yield plan_cache.run(engine, template, statement, otherwise) if same else otherwise()

    return outcome()


def _executed(engine: Engine, text: str) -> Asked | None:
    """An EXECUTE of constants as the statement that was prepared."""
    if text[:BEGINNING].lstrip()[: len(EXECUTE)].lower() != EXECUTE:
        return None
    return plan_cache.asked_by_name(engine, text)


def statements(engine: Engine, text: str, parameters: Parameters | None) -> list[ast.Statement]:
    """The statements of a script, parameters put in their places; a failure rolls back."""
    with engine.transactions.undoing():
        return bound_script(text, parameters)


def bound_script(text: str, parameters: Parameters | None) -> list[ast.Statement]:
    """The statements of a script, parameters put in their places."""
    by_position = parameters is not None and not hasattr(parameters, "keys")
    binder = Binder(() if parameters is None else parameters)
    parsed = parsed_script(numbered(text) if by_position else text)
    bound = [binder.bind(statement) for statement in parsed] if has_marks(text) else parsed
    binder.finish()
    _refuse_views_with_parameters(parsed, bound)
    return bound


def parsed_script(text: str) -> list[ast.Statement]:
    """The statements of a script, which may have long lists of constants."""
    if len(text) <= SHORT_SCRIPT:
        return parse(text)

    return parsed(text)


def reading(engine: Engine, statement: ast.Statement, run: Callable[[Engine, ast.Statement], Given]) -> Given:
    """Run a statement that may read files and frames."""
    try:
        return run(engine, external_tables.readable(engine, statement))
    finally:
        engine.release_attached()


def _refuse_views_with_parameters(parsed: list[ast.Statement], bound: list[ast.Statement]) -> None:
    """A view is remembered by its text, in which a parameter would have no value."""
    for before, after in zip(parsed, bound, strict=True):
        if isinstance(before, ast.CreateView) and before is not after:
            raise InterfaceError("a view cannot have parameters", hint="write the values into its text")


WORD: Final = re.compile(r"\s*(select|insert|update|delete)\b", re.IGNORECASE)
ADDS: Final = re.compile(r"\s*insert\b(?!.*\b(?:select|default|with)\b).*\bvalues\b", re.I | re.S)
CHANGES: Final = ("update", "delete")
MOST_TEXTS: Final = 1024
"""So many texts are known."""
SHORT: Final = 1_000
"""Letters of a text that is remembered."""
LONGEST: Final = 2_000
"""Letters of a statement that are logged."""
SECRET: Final = re.compile(r"""(\bpassword\b[\s=(]*)(?:e|u&|n)?['$"].*""", re.IGNORECASE | re.DOTALL)


def shown(text: str) -> str:
    """A statement as it is logged: cut where it is long, and where a password begins."""
    text = SECRET.sub(r"\1<hidden>", text.strip())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


@lru_cache(MOST_TEXTS)
def _read(text: str) -> tuple[str | None, bool]:
    found = WORD.match(text)
    if found is None or ";" in text.rstrip().rstrip(";"):
        return None, False
    return found[1].lower(), ADDS.match(text) is not None


def _seen(text: str) -> tuple[str | None, bool]:
    """The word of a statement, and whether it only adds rows; long texts are not remembered."""
    return _read(text) if len(text) <= SHORT else _read.__wrapped__(text)


def word_of(text: str) -> str | None:
    """The word that a statement begins with, if the text is one statement that may have a plan already."""
    return _seen(text)[0]


def gathers(text: str) -> "bool | Callable[[Engine], bool]":
    """Whether it may share its step: an INSERT that reads nothing, a change of a row by its key."""
    word, adds = _seen(text)
    return partial(_looks_up, text) if word in CHANGES else adds


def is_light(text: str, engine: "Engine") -> bool:
    """Whether it takes about as long as to have another thread do it: a few rows are added, or looked up."""
    return len(text) <= SHORT and (_read(text)[1] or _looks_up(text, engine))


def _looks_up(text: str, engine: "Engine") -> bool:
    if not len(engine.remembered.keyed):
        return False
    return plan_cache.looks_up(engine, text)
