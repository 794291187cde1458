"""Features of a statement that only some statements use. The parser finds them in its tokens.

A feature decides whether a path that most statements do without is taken. It covers the whole
statement, so a part of the statement may lack it.
"""

from collections.abc import Sequence
from typing import Final

from sqlglot.tokenizer_core import Token, TokenType

from kpg.runtime.errors import Span
from kpg.runtime.records import dataclass


@dataclass(frozen=True, slots=True)
class Features:
    """The features that a statement uses."""

    calls_volatile: bool = False
    """Whether it calls a random function, a sequence function or pg_sleep."""
    locks_rows: bool = False
    """Whether it has FOR UPDATE or a variant of it."""
    evaluates_early: bool = False
    """Whether it may have LIMIT with a subquery, a call about settings, or a call with a side effect."""
    reads_system: bool = False
    """Whether it is a query that may read system relations."""
    reads_past: bool = False
    """Whether it has a nested query AS OF."""
    system_columns: tuple[str, ...] = ()
    """The system columns that it names, of ``tableoid`` and ``ctid``."""


NO_FEATURES: Final = Features()


@dataclass(frozen=True, slots=True)
class StatementSpan(Span):
    """Span of a statement, or of a query in it, with the features of the statement."""

    features: Features = NO_FEATURES

    def narrow(self, place: Span | None) -> "StatementSpan":
        """Return the span of a part of the statement; this span if the place is unknown."""
        if place is None:
            return self
        return StatementSpan(place.source, place.start, place.end, place.file, self.features)


PAST_MARKER: Final = "kpg_as_of"
"""Alias of a nested query AS OF: see :mod:`kpg.compiler.sql.parse.as_of`."""
SEQUENCE_FUNCTIONS: Final = frozenset({"nextval", "currval", "setval", "lastval"})
VOLATILE_FUNCTIONS: Final = frozenset(
    {"random", "random_normal", "gen_random_uuid", "setseed", "timeofday", "pg_sleep", "pg_sleep_for"}
)
UUID_FUNCTIONS: Final = ("uuid", "generate_uuid", "uuid_generate_v4", "uuid_string")
"""Functions that are parsed like gen_random_uuid."""
VOLATILE_NAMES: Final = SEQUENCE_FUNCTIONS.union(VOLATILE_FUNCTIONS, UUID_FUNCTIONS, ("rand",))
ADVISORY_LOCK_FUNCTIONS: Final = {
    f"pg_{tries}advisory_{part}{shared}": ("boolean" if tries or part == "unlock" else "text")
    for tries in ("", "try_")
    for part in ("lock", "xact_lock", "unlock")
    for shared in ("", "_shared")
    if not (tries and part == "unlock")
}
"""Functions of advisory locks and their result types."""
SETTING_FUNCTIONS: Final = frozenset(("current_setting", "set_config"))
EARLY_NAMES: Final = SETTING_FUNCTIONS.union(
    ("limit", "offset", "first", "next"),  # before the parenthesis of a subquery
    ("pg_notify", "pg_cancel_backend", "pg_terminate_backend", "pg_sleep", "pg_export_snapshot", "setval"),
    ("pg_advisory_unlock_all", *ADVISORY_LOCK_FUNCTIONS),
)
SYSTEM_COLUMN_NAMES: Final = ("tableoid", "ctid")
QUERY_WORDS: Final = ("select", "with", "values", "table", "(")
SYSTEM_PREFIXES: Final = ("pg_", "current_", "information_schema", "version")
"""Prefixes of the names of system relations and of functions about the session."""
RARE_WORDS: Final = VOLATILE_NAMES.union(EARLY_NAMES, SYSTEM_COLUMN_NAMES, ("for", PAST_MARKER))
LOCK_STRENGTHS: Final = (["update"], ["share"], ["no", "key"], ["key", "share"])


def statement_span(tokens: Sequence[Token], text: str, words: Sequence[str] | None = None) -> StatementSpan:
    """Return the span of a statement's tokens; ``words`` are their texts in lower case."""
    words = [token.text.lower() for token in tokens] if words is None else words
    return StatementSpan(text, tokens[0].start, tokens[-1].end + 1, "", find_features(tokens, words))


def find_features(tokens: Sequence[Token], words: Sequence[str]) -> Features:
    """Return the features of a statement; ``words`` are the texts of its tokens in lower case."""
    rare = [place for place, word in enumerate(words) if word in RARE_WORDS]
    reads_system = words[0] in QUERY_WORDS and any(word.startswith(SYSTEM_PREFIXES) for word in words)
    if not rare and not reads_system:
        return NO_FEATURES
    called, columns = set[str](), set[str]()
    locks_rows = reads_past = False
    for place in rare:
        word, following = words[place], words[place + 1 : place + 3]
        if tokens[place].token_type is TokenType.STRING:
            continue
        if word in SYSTEM_COLUMN_NAMES:
            columns.add(word)
        elif word == "for":
            locks_rows |= following[:1] in LOCK_STRENGTHS or following in LOCK_STRENGTHS
        elif word == PAST_MARKER:
            reads_past = True
        elif following[:1] == ["("]:
            called.add(word)
    return Features(
        not called.isdisjoint(VOLATILE_NAMES),
        locks_rows,
        not called.isdisjoint(EARLY_NAMES),
        reads_system,
        reads_past,
        tuple(name for name in SYSTEM_COLUMN_NAMES if name in columns),
    )
