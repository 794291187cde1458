"""The statements of PL/pgSQL as data. Expressions and queries are the texts that were written."""

from kpg.runtime.records import dataclass


@dataclass(frozen=True, slots=True)
class Declared:
    """A variable: its type as text, "" for an alias of another one or a cursor, whose text is ``default``."""

    name: str
    type: str
    default: str = ""
    constant: bool = False
    required: bool = False
    kind: str = "variable"
    """``variable``, ``alias`` or ``cursor``."""
    arguments: tuple[tuple[str, str], ...] = ()
    """Of a cursor: names and types."""


@dataclass(frozen=True, slots=True)
class Handler:
    """WHEN conditions, in lower case or as SQLSTATEs, THEN."""

    conditions: tuple[str, ...]
    body: "Body"


@dataclass(frozen=True, slots=True)
class Block:
    """DECLARE ... BEGIN ... EXCEPTION ... END."""

    label: str
    declarations: tuple[Declared, ...]
    body: "Body"
    handlers: tuple[Handler, ...]


@dataclass(frozen=True, slots=True)
class Assign:
    """A variable, a field of one or an element of one, and the expression."""

    target: str
    value: str


@dataclass(frozen=True, slots=True)
class If:
    """IF and ELSIF, or CASE without an operand: conditions with what is done. ``otherwise`` None: no ELSE."""

    branches: tuple[tuple[str, "Body"], ...]
    otherwise: "Body | None"
    strict: bool = False
    """Whether it is an error if there is no branch for it: CASE."""


@dataclass(frozen=True, slots=True)
class Case:
    """CASE with an operand; each branch has the text of its values."""

    operand: str
    branches: tuple[tuple[str, "Body"], ...]
    otherwise: "Body | None"


@dataclass(frozen=True, slots=True)
class Loop:
    """LOOP, or WHILE with a condition."""

    label: str
    condition: str
    body: "Body"


@dataclass(frozen=True, slots=True)
class ForNumbers:
    """FOR variable IN [REVERSE] low .. high BY step."""

    label: str
    variable: str
    low: str
    high: str
    step: str
    reverse: bool
    body: "Body"


@dataclass(frozen=True, slots=True)
class Dynamic:
    """EXECUTE expression USING expressions, or a query, if ``using`` is None."""

    text: str
    using: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ForRows:
    """FOR targets IN query; ``cursor`` if it may be the name of one."""

    label: str
    targets: tuple[str, ...]
    query: Dynamic
    body: "Body"


@dataclass(frozen=True, slots=True)
class ForEach:
    """FOREACH variables SLICE n IN ARRAY expression."""

    label: str
    targets: tuple[str, ...]
    slice: int
    array: str
    body: "Body"


@dataclass(frozen=True, slots=True)
class Exit:
    """EXIT, or CONTINUE if it ``goes_on``."""

    label: str
    condition: str
    goes_on: bool


@dataclass(frozen=True, slots=True)
class Return:
    """RETURN, perhaps with an expression."""

    value: str


@dataclass(frozen=True, slots=True)
class ReturnNext:
    """RETURN NEXT, perhaps with an expression."""

    value: str


@dataclass(frozen=True, slots=True)
class ReturnQuery:
    """RETURN QUERY."""

    query: Dynamic


@dataclass(frozen=True, slots=True)
class Raise:
    """RAISE. ``state`` is a condition's name or a SQLSTATE; without anything the error is raised again."""

    level: str
    form: str | None
    arguments: tuple[str, ...]
    state: str
    options: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Assert:
    """ASSERT condition, message."""

    condition: str
    message: str


@dataclass(frozen=True, slots=True)
class Perform:
    """PERFORM: a query whose rows nobody wants."""

    query: str


@dataclass(frozen=True, slots=True)
class Sql:
    """Any statement of SQL, EXECUTE too, whose first row may go INTO variables."""

    statement: Dynamic
    into: tuple[str, ...] = ()
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """GET DIAGNOSTICS: variables, and what they get."""

    stacked: bool
    items: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class OpenCursor:
    """OPEN cursor FOR query, or with the arguments of a declared one, by name or "" for place."""

    cursor: str
    query: Dynamic | None
    arguments: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class FetchCursor:
    """FETCH or, without targets, MOVE."""

    cursor: str
    direction: str
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CloseCursor:
    """CLOSE cursor."""

    cursor: str


@dataclass(frozen=True, slots=True)
class End:
    """COMMIT, ROLLBACK, or nothing for NULL."""

    what: str


Statement = (
    Block
    | Assign
    | If
    | Case
    | Loop
    | ForNumbers
    | ForRows
    | ForEach
    | Exit
    | Return
    | ReturnNext
    | ReturnQuery
    | Raise
    | Assert
    | Perform
    | Sql
    | Diagnostics
    | OpenCursor
    | FetchCursor
    | CloseCursor
    | End
)
Body = tuple[Statement, ...]
