"""CREATE TABLE, VIEW and SEQUENCE.

The clauses shared with ALTER are here too: columns, constraints, partitions and sequence options.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp

from kpg.compiler.catalog.constraints import (
    Bound,
    Check,
    Constraint,
    Constraints,
    ForeignKey,
    Partitioned,
    Rule,
    Sequence,
    Unique,
)
from kpg.compiler.catalog.constraints import Sequence as Numbers
from kpg.compiler.qualified_names import quote_name
from kpg.compiler.sql.parse import statements as ast
from kpg.compiler.sql.parse import storage_parameters
from kpg.compiler.sql.parse.definitions import AlterSequence, CreateSequence, Options
from kpg.compiler.sql.parse.features import StatementSpan
from kpg.compiler.sql.parse.reader import Reader
from kpg.compiler.sql.parse.statements import Execute
from kpg.compiler.sql.parse.tokenizer import tokenize
from kpg.runtime import types as t
from kpg.runtime.errors import ProgrammingError, Span
from kpg.runtime.gc_pause import LazyModule
from kpg.runtime.types import ColumnDef, Schema, Type
from kpg.runtime.unsupported_features import unsupported_syntax_error

if TYPE_CHECKING:
    from kpg.compiler.sql.parse import session_statements
else:
    session_statements = LazyModule("kpg.compiler.sql.parse.session_statements")

REFERENTIAL_ACTIONS: Final = ("NO ACTION", "RESTRICT", "CASCADE", "SET NULL", "SET DEFAULT")

MODIFIERS: Final = (
    "OR",
    "REPLACE",
    "GLOBAL",
    "LOCAL",
    "TEMPORARY",
    "TEMP",
    "UNLOGGED",
    "RECURSIVE",
    "MATERIALIZED",
)
"""Words between CREATE and the kind of object."""


def parse_column_constraint(reader: Reader, column: str, name: str) -> Constraint:
    """Parse a constraint of one column."""
    if reader.accept("PRIMARY", "KEY"):
        found: Constraint = _parse_key_options(reader, Unique(name, (column,), primary=True))
    elif reader.accept("UNIQUE"):
        found = _parse_key_options(
            reader, Unique(name, (column,), nulls_distinct=_parse_nulls_distinct(reader))
        )
    elif reader.accept("REFERENCES"):
        found = _parse_references(reader, name, (column,))
    elif reader.at("DEFERRABLE") or reader.at("INITIALLY"):
        reader.fail_unexpected("a constraint before DEFERRABLE")
    else:
        reader.fail_unexpected()
    return found


def parse_table_constraint(reader: Reader, name: str = "") -> Constraint:
    """Parse a constraint of a table."""
    if reader.accept("CONSTRAINT"):
        name = reader.name()
    if reader.accept("CHECK"):
        check = Check(name, reader.parenthesized_text())
        reader.accept("NO", "INHERIT")
        _parse_deferral(reader, "CHECK")
        return check
    if reader.accept("FOREIGN", "KEY"):
        columns = reader.names()
        reader.expect("REFERENCES")
        return _parse_references(reader, name, columns)
    if reader.at("EXCLUDE"):
        raise unsupported_syntax_error("EXCLUDE", reader.here())
    if reader.accept("PRIMARY", "KEY"):
        found = Unique(name, _parse_key_columns(reader), primary=True)
    elif reader.accept("UNIQUE"):
        distinct = _parse_nulls_distinct(reader)
        found = Unique(name, _parse_key_columns(reader), nulls_distinct=distinct)
    else:
        reader.fail_unexpected("a constraint")
    return _parse_key_options(reader, found)


def _parse_key_columns(reader: Reader) -> tuple[str, ...]:
    place = reader.position
    names = reader.names() if not reader.at("USING") else reader.refuse("a constraint USING INDEX")
    if len({name.lower() for name in names}) < len(names):
        reader.skip(place - reader.position)
        reader.fail("a column is named twice in a key")
    return names


def _parse_nulls_distinct(reader: Reader) -> bool:
    if reader.accept("NULLS", "NOT", "DISTINCT"):
        return False
    reader.accept("NULLS", "DISTINCT")
    return True


def _parse_key_options(reader: Reader, key: Unique) -> Unique:
    """Parse INCLUDE, storage parameters and deferral of a key."""
    if reader.accept("INCLUDE"):
        key = replace(key, included=reader.names())
    if reader.accept("WITH"):
        storage_parameters.parse_storage_parameters(reader, storage_parameters.INDEX_PARAMETERS)
    if reader.accept("USING", "INDEX", "TABLESPACE"):
        storage_parameters.parse_tablespace(reader)
    _, deferred = _parse_deferral(reader, "")
    if deferred:
        reader.skip(-1)
        reader.refuse("a key that is INITIALLY DEFERRED", "keys are checked at the end of each statement")
    return key


def _parse_deferral(reader: Reader, non_deferrable: str) -> tuple[bool, bool]:
    """Parse DEFERRABLE and INITIALLY in any order; return whether it is deferrable and initially deferred.

    ``non_deferrable`` names a kind of constraint that cannot be deferrable; "" for others.
    """
    deferrable = deferred = False
    while True:
        if reader.accept("NOT", "DEFERRABLE"):
            continue
        if reader.accept("DEFERRABLE"):
            deferrable = True
        elif reader.accept("INITIALLY", "DEFERRED"):
            deferrable = deferred = True
        elif not reader.accept("INITIALLY", "IMMEDIATE"):
            break
    if non_deferrable and deferrable:
        reader.skip(-1)
        reader.fail(f"{non_deferrable} constraints cannot be deferrable")
    return deferrable, deferred


def _parse_references(reader: Reader, name: str, columns: tuple[str, ...]) -> ForeignKey:
    target = reader.relation()
    targets = reader.names() if reader.at("(") else ()
    if targets and len(targets) != len(columns):
        reader.fail(f"a foreign key of {len(columns)} columns refers to {len(targets)}")
    found = ForeignKey(name, columns, target, targets)
    while True:
        if reader.accept("MATCH"):
            kind = reader.expect_one_of("SIMPLE", "FULL", "PARTIAL")
            if kind == "PARTIAL":
                reader.skip(-1)
                reader.refuse("MATCH PARTIAL")
            found = replace(found, match=kind)
        elif reader.accept("ON", "DELETE"):
            action = reader.expect_one_of(*REFERENTIAL_ACTIONS)
            set_columns = reader.names() if action.startswith("SET") and reader.at("(") else ()
            found = replace(found, on_delete=action, set_columns=set_columns)
        elif reader.accept("ON", "UPDATE"):
            found = replace(found, on_update=reader.expect_one_of(*REFERENTIAL_ACTIONS))
        else:
            break
    deferrable, deferred = _parse_deferral(reader, "")
    return replace(found, deferrable=deferrable, deferred=deferred)


def parse_partition_by(reader: Reader, name: str) -> Partitioned | None:
    """Parse PARTITION BY kind (keys); None if it does not come next."""
    if not reader.accept("PARTITION", "BY"):
        return None
    kind = reader.expect_one_of("RANGE", "LIST", "HASH")
    reader.expect("(")
    keys = [_parse_partition_key(reader)]
    while reader.accept(","):
        keys.append(_parse_partition_key(reader))
    reader.expect(")")
    return Partitioned(name, kind, tuple(keys))


def _parse_partition_key(reader: Reader) -> str:
    text = reader.value()
    if reader.accept("COLLATE"):
        reader.name()
    if not reader.at(",") and not reader.at(")"):
        reader.name()
    return text


def parse_partition_bound(reader: Reader, parent: str) -> Bound:
    """Parse FOR VALUES ... or DEFAULT."""
    if reader.accept("DEFAULT"):
        return Bound(parent, "DEFAULT", ())
    reader.expect("FOR", "VALUES")
    if reader.accept("IN"):
        return Bound(parent, "IN", (_parse_bound_values(reader),))
    if reader.accept("FROM"):
        low = _parse_bound_values(reader)
        reader.expect("TO")
        return Bound(parent, "FROM", (low, _parse_bound_values(reader)))
    reader.expect("WITH")
    reader.expect("(", "MODULUS")
    modulus = str(reader.number())
    reader.expect(",", "REMAINDER")
    remainder = str(reader.number())
    reader.expect(")")
    return Bound(parent, "WITH", ((modulus,), (remainder,)))


def _parse_bound_values(reader: Reader) -> tuple[str, ...]:
    reader.expect("(")
    found = [reader.value()]
    while reader.accept(","):
        found.append(reader.value())
    reader.expect(")")
    return tuple(found)


MAX_VALUES: Final = {"smallint": 2**15 - 1, "integer": 2**31 - 1, "bigint": 2**63 - 1}
TYPE_ALIASES: Final = {"int2": "smallint", "int": "integer", "int4": "integer", "int8": "bigint"}
NUMBER_OPTIONS: Final = {
    "INCREMENT BY": "increment",
    "INCREMENT": "increment",
    "START WITH": "start",
    "START": "start",
    "RESTART WITH": "restart",
    "MINVALUE": "least",
    "MAXVALUE": "most",
    "CACHE": "cache",
}
FLAG_OPTIONS: Final = {
    "NO MINVALUE": ("least", None),
    "NO MAXVALUE": ("most", None),
    "NO CYCLE": ("cycle", False),
    "CYCLE": ("cycle", True),
}


def parse_sequence_options(reader: Reader) -> Options:
    """Parse options of a sequence as long as one comes next."""
    found: list[tuple[str, Any]] = []
    while not reader.at_end and (option := _parse_sequence_option(reader)) is not None:
        found.append(option)
    return tuple(found)


def _parse_sequence_option(reader: Reader) -> tuple[str, Any] | None:
    for words, (name, value) in FLAG_OPTIONS.items():
        if reader.accept(*words.split()):
            return name, value
    for words, name in NUMBER_OPTIONS.items():
        if reader.accept(*words.split()):
            return name, reader.number()
    if reader.accept("RESTART"):
        at_number = not reader.at_end and reader.tokens[reader.position].text.lstrip("-").isdigit()
        return "restart", reader.number() if at_number or reader.at("-") else None
    if reader.accept("AS"):
        word = reader.name().lower()
        if TYPE_ALIASES.get(word, word) not in MAX_VALUES:
            reader.fail("a sequence is of type smallint, integer or bigint")
        return "type", TYPE_ALIASES.get(word, word)
    if reader.accept("SEQUENCE", "NAME"):
        return "name", reader.relation().removeprefix("public.")
    if reader.accept("OWNED", "BY"):
        return "owner", _parse_owned_by(reader)
    if reader.accept("SET"):
        return _parse_sequence_option(reader)
    return None


def _parse_owned_by(reader: Reader) -> tuple[str, str] | None:
    parts = [reader.name()]
    while reader.accept("."):
        parts.append(reader.name())
    if len(parts) == 1 and parts[0].lower() != "none":
        reader.fail("OWNED BY takes table.column, or NONE")
    return None if len(parts) == 1 else (".".join(parts[:-1]), parts[-1])


def apply_sequence_options(old: Sequence, option_list: Options, span: Span | None, *, new: bool) -> Sequence:
    """Return a sequence with options applied, and with the bounds of its type and direction.

    ``new``: unspecified bounds and start are defaults, not those of ``old``. ProgrammingError for
    options that contradict each other.
    """
    options = dict(option_list)

    def error(message: str) -> ProgrammingError:
        return ProgrammingError(message, span=span)

    kind: Any = options.get("type", old.type)
    increment: Any = options.get("increment", old.increment)
    cache: Any = options.get("cache", 1)
    if cache < 1:
        raise error(f"CACHE ({cache}) must be greater than zero")
    if not increment:
        raise error("INCREMENT must not be zero")
    most = MAX_VALUES[kind]
    bounds = (1, most) if increment > 0 else (-most - 1, -1)
    low: Any = options.get("least", None if new else old.least)
    high: Any = options.get("most", None if new or kind != old.type else old.most)
    low = bounds[0] if low is None else low
    high = bounds[1] if high is None else high
    if low >= high:
        raise error(f"MINVALUE {low} must be less than MAXVALUE {high}")
    start: Any = options.get("start", (low if increment > 0 else high) if new else old.start)
    if not low <= start <= high:
        raise error(f"START value {start} is not between MINVALUE {low} and MAXVALUE {high}")
    name: Any = options.get("name", old.name)
    cycle, owner = bool(options.get("cycle", old.cycle)), options.get("owner", old.owner)
    return Sequence(name, start, increment, low, high, cycle, kind, owner)  # type: ignore[arg-type]


def make_sequence(name: str, option_list: Options, type_: str, span: Span | None) -> Sequence:
    """Return a new sequence."""
    initial = Sequence(name, most=MAX_VALUES[type_], type=type_)
    made_name: Any = dict(option_list).get("name", name)
    return replace(apply_sequence_options(initial, option_list, span, new=True), name=made_name)


def parse_create_sequence(reader: Reader, *, temporary: bool) -> CreateSequence:
    """Parse the rest of CREATE SEQUENCE."""
    exists = reader.accept("IF", "NOT", "EXISTS")
    name = reader.relation()
    found = CreateSequence(name, parse_sequence_options(reader), exists, temporary, reader.span)
    reader.expect_end()
    make_sequence(name, found.options, "bigint", reader.span)
    return found


def parse_alter_sequence(reader: Reader) -> AlterSequence:
    """Parse the rest of ALTER SEQUENCE."""
    exists = reader.accept("IF", "EXISTS")
    name = reader.relation()
    rename = ""
    sequence_options: Options = ()
    if reader.accept("RENAME", "TO"):
        rename = reader.name()
    elif reader.accept("OWNER", "TO"):
        reader.name()
    else:
        sequence_options = parse_sequence_options(reader)
    reader.expect_end()
    return AlterSequence(name, sequence_options, exists, rename, reader.span)


SERIALS: Final = {
    **dict.fromkeys(("smallserial", "serial2"), (t.SMALLINT, "smallint")),
    **dict.fromkeys(("serial", "serial4"), (t.INTEGER, "integer")),
    **dict.fromkeys(("bigserial", "serial8"), (t.BIGINT, "bigint")),
}
SEQUENCE_TYPES: Final = {t.SMALLINT: "smallint", t.INTEGER: "integer", t.BIGINT: "bigint"}
CODE_POINT_COLLATIONS: Final = ("c", "posix", "ucs_basic", "c.utf-8")
COLLATION_HINT: Final = 'texts are compared by code point, as by COLLATE "C"'
LIKE_OPTIONS: Final = (
    "DEFAULTS",
    "CONSTRAINTS",
    "IDENTITY",
    "GENERATED",
    "INDEXES",
    "COMMENTS",
    "STATISTICS",
    "STORAGE",
)
TABLE_ELEMENT_KEYWORDS: Final = (
    "CONSTRAINT",
    "CHECK",
    "UNIQUE",
    "PRIMARY KEY",
    "FOREIGN KEY",
    "EXCLUDE",
    "LIKE",
)


class TableElements:
    """Elements of a table's definition that have been parsed."""

    def __init__(self) -> None:
        self.columns: list[ColumnDef] = []
        self.names: set[str] = set()
        """The names of the columns by :func:`column`, in lower case."""
        self.rules: list[Rule] = []
        self.constraints: list[Constraint] = []
        self.sequences: list[tuple[str, Numbers]] = []
        self.likes: list[ast.Like] = []


def parse_table_elements(reader: Reader) -> TableElements:
    """Parse the parenthesized list of CREATE TABLE."""
    parts = TableElements()
    reader.expect("(")
    if reader.accept(")"):
        return parts
    while True:
        if reader.accept("LIKE"):
            parts.likes.append(_parse_like(reader, len(parts.columns)))
        elif any(reader.at(*words.split()) for words in TABLE_ELEMENT_KEYWORDS):
            parts.constraints.append(parse_table_constraint(reader))
        else:
            parse_column(reader, parts)
        if not reader.accept(","):
            break
    reader.expect(")")
    return parts


def _parse_like(reader: Reader, place: int) -> ast.Like:
    relation = reader.relation()
    including: set[str] = set()
    while True:
        if reader.accept("INCLUDING", "ALL"):
            including.update(LIKE_OPTIONS)
        elif reader.accept("EXCLUDING", "ALL"):
            including.clear()
        elif reader.accept("INCLUDING"):
            including.add(reader.expect_one_of(*LIKE_OPTIONS))
        elif reader.accept("EXCLUDING"):
            including.discard(reader.expect_one_of(*LIKE_OPTIONS))
        else:
            return ast.Like(relation, place, frozenset(including))


def parse_column(reader: Reader, parts: TableElements) -> None:
    """Parse a column definition: name, type and constraints."""
    place, name = reader.here(), reader.name()
    if name.lower() in parts.names:
        reader.skip(-1)
        reader.fail(f'column "{name}" is defined twice')
    if reader.at_end or reader.at(",") or reader.at(")"):
        raise _missing_type_error(name, place)
    serial = None
    if not reader.at_end and (word := reader.tokens[reader.position].text.lower()) in SERIALS:
        reader.skip(1)
        serial = SERIALS[word]
    type_ = serial[0] if serial else reader.type()
    digits = None if serial else reader.digits
    clauses = _ColumnClauses(reader, name, type_, parts)
    if serial:
        parts.sequences.append((name, make_sequence("", (), serial[1], reader.span)))
        clauses.nullable = False
    clauses.parse()
    parts.columns.append(ColumnDef(name, type_, clauses.nullable))
    parts.names.add(name.lower())
    parts.rules.append(clauses.rule if digits is None else replace(clauses.rule, digits=digits))


def _missing_type_error(name: str, place: object) -> Exception:

    assert isinstance(place, Span)
    return ProgrammingError(f'column "{name}" has no type', span=place)


def parse_collation(reader: Reader) -> None:
    """Parse a collation; only those that compare by code point are supported."""
    if reader.at_end or reader.tokens[reader.position].text.lower() not in CODE_POINT_COLLATIONS:
        reader.refuse("COLLATE", COLLATION_HINT)
    reader.skip(1)


class _ColumnClauses:
    """Parser of the clauses after a column's type."""

    def __init__(self, reader: Reader, name: str, type_: Type, parts: TableElements) -> None:
        self.reader = reader
        self.name = name
        self.type = type_
        self.parts = parts
        self.nullable = True
        self.rule = Rule()

    def parse(self) -> None:
        reader = self.reader
        while not (reader.at_end or reader.at(",") or reader.at(")")):
            constraint_name = reader.name() if reader.accept("CONSTRAINT") else ""
            if reader.accept("NOT", "NULL"):
                self.nullable = False
                reader.accept("NO", "INHERIT")
            elif reader.accept("NULL"):
                self.nullable = True
            elif reader.accept("DEFAULT"):
                self._refuse_second(self.rule.default, "DEFAULT")
                self.rule = replace(self.rule, default=reader.value())
            elif reader.accept("GENERATED"):
                self._parse_generated()
            elif reader.at("CHECK"):
                check = parse_table_constraint(reader, constraint_name)
                assert isinstance(check, Check)
                self.parts.constraints.append(replace(check, column=self.name))
            elif reader.accept("COLLATE"):
                parse_collation(reader)
            elif reader.accept("AUTOINCREMENT") or reader.accept("AUTO_INCREMENT"):
                self._add_identity("BY DEFAULT")
            elif reader.accept("STORAGE"):
                storage_parameters.parse_storage(reader)
            elif reader.accept("COMPRESSION"):
                storage_parameters.parse_compression(reader)
            else:
                self.parts.constraints.append(parse_column_constraint(reader, self.name, constraint_name))

    def _refuse_second(self, earlier: str, clause: str) -> None:
        if earlier:
            self.reader.fail(f'column "{self.name}" has two clauses {clause}')

    def _parse_generated(self) -> None:
        reader = self.reader
        kind = reader.expect_one_of("ALWAYS", "BY DEFAULT")
        reader.expect("AS")
        if not reader.accept("IDENTITY"):
            if kind != "ALWAYS":
                reader.fail_unexpected("IDENTITY")
            self.rule = replace(self.rule, generated=reader.parenthesized_text())
            if reader.accept("VIRTUAL"):
                reader.skip(-1)
                reader.refuse("a VIRTUAL generated column", "write STORED")
            reader.expect("STORED")
            return
        self._add_identity(kind)

    def _add_identity(self, kind: str) -> None:
        reader = self.reader
        if self.type not in SEQUENCE_TYPES:
            reader.fail(f'identity column "{self.name}" must be smallint, integer or bigint')
        sequence_options: Options = ()
        if reader.accept("("):
            sequence_options = parse_sequence_options(reader)
            reader.expect(")")
        self.parts.sequences.append(
            (self.name, make_sequence("", sequence_options, SEQUENCE_TYPES[self.type], reader.span))
        )
        self.rule = replace(self.rule, identity=kind)
        self.nullable = False


def parse_create_table(reader: Reader, *, temporary: bool) -> ast.CreateTable | ast.CreateTableAs | Execute:
    """Parse the rest of CREATE TABLE."""
    exists = reader.accept("IF", "NOT", "EXISTS")
    name = reader.relation()
    if reader.accept("PARTITION", "OF"):
        return _parse_partition_of(reader, name, exists)
    if reader.at("OF"):
        reader.refuse("a typed table")
    if reader.at("AS") or _is_create_as(reader):
        return _parse_create_as(reader, name, exists, temporary)
    if not reader.at("("):
        raise missing_columns_error(reader)
    parts = parse_table_elements(reader)
    if reader.at("INHERITS"):
        raise unsupported_syntax_error("INHERITS", reader.here())
    partitioned = None
    if reader.at("PARTITION", "BY"):
        partitioned = parse_partition_by(reader, name)
    distribution = _parse_distribution(reader)
    on_commit = _parse_table_options(reader)
    distribution = distribution or _parse_distribution(reader)
    if distribution and partitioned is not None:
        reader.skip(-1)
        reader.refuse(f"{'REPLICATED' if distribution == '*' else 'DISTRIBUTED BY'} on a partitioned table")
    column_names = {column.name.lower() for column in parts.columns}
    if distribution not in ("", "*") and distribution.lower() not in column_names and not parts.likes:
        reader.skip(-2)
        reader.fail(f'column "{distribution}" does not exist')
    reader.expect_end()
    statement = _make_statement(reader, name, exists, parts, temporary, on_commit)
    if partitioned is not None:
        return replace(statement, partitioned=partitioned)
    return replace(statement, distribution=distribution) if distribution else statement


def _parse_distribution(reader: Reader) -> str:
    """Parse DISTRIBUTED BY (column) or REPLICATED; return the column, ``*``, or "" without it."""
    if reader.accept("REPLICATED"):
        return "*"
    if not reader.accept("DISTRIBUTED", "BY"):
        return ""
    reader.expect("(")
    column = reader.name()
    if reader.at(","):
        reader.refuse("DISTRIBUTED BY several columns")
    reader.expect(")")
    return column


def _parse_partition_of(reader: Reader, name: str, exists: bool) -> ast.CreateTable:
    """Parse the rest of CREATE TABLE ... PARTITION OF."""

    parent = reader.relation()
    parts = _parse_partition_elements(reader)
    bound = parse_partition_bound(reader, parent)
    partitioned = parse_partition_by(reader, name)
    _parse_table_options(reader)
    reader.expect_end()
    statement = ast.CreateTable(
        name, Schema(tuple(parts.columns)), exists, reader.span, collect_constraints(parts)
    )
    return replace(statement, partition=bound, partitioned=partitioned)


def _parse_partition_elements(reader: Reader) -> TableElements:
    """Parse a partition's own constraints, and its clauses for columns of the partitioned table."""
    parts = TableElements()
    if not reader.accept("("):
        return parts
    while True:
        if any(reader.at(*words.split()) for words in TABLE_ELEMENT_KEYWORDS):
            parts.constraints.append(parse_table_constraint(reader))
        else:
            name = reader.name()
            reader.accept("WITH", "OPTIONS")
            clauses = _ColumnClauses(reader, name, t.TEXT, parts)
            clauses.parse()
            parts.columns.append(ColumnDef(name, t.TEXT, clauses.nullable))
            parts.rules.append(clauses.rule)
        if not reader.accept(","):
            break
    reader.expect(")")
    return parts


def missing_columns_error(reader: Reader) -> Exception:
    """Return the error for CREATE TABLE without a column list."""

    return ProgrammingError("CREATE TABLE needs a list of columns", span=reader.span)


def _parse_table_options(reader: Reader) -> str:
    """Parse the options after the columns; return DELETE ROWS or DROP of ON COMMIT, or ""."""
    if reader.at("PARTITION", "BY") or reader.at("PARTITION"):
        reader.refuse("PARTITION BY")
    if reader.accept("USING"):
        storage_parameters.parse_access_method(reader)
    if reader.accept("STRICT") or reader.accept("WITHOUT", "ROWID") or reader.accept("WITHOUT", "OIDS"):
        pass
    elif reader.accept("WITH"):
        storage_parameters.parse_storage_parameters(reader, storage_parameters.TABLE_PARAMETERS, toast=True)
    action = ""
    if reader.accept("ON", "COMMIT"):
        action = reader.expect_one_of("PRESERVE ROWS", "DELETE ROWS", "DROP")
    if reader.accept("TABLESPACE"):
        storage_parameters.parse_tablespace(reader)
    return "" if action == "PRESERVE ROWS" else action


def _is_create_as(reader: Reader) -> bool:
    """Return whether AS follows, after an optional column list and options."""
    texts = [token.text.upper() for token in reader.rest()]
    if not texts or texts[0] not in ("(", "WITH", "ON", "USING", "TABLESPACE"):
        return False
    depth = 0
    for text in texts:
        depth += (text == "(") - (text == ")")
        if text == "AS" and depth == 0:
            return True
    return False


def _parse_create_as(reader: Reader, name: str, exists: bool, temporary: bool) -> ast.CreateTableAs | Execute:
    columns = reader.names() if reader.at("(") else ()
    on_commit = _parse_table_options(reader)
    reader.expect("AS")
    tokens = [token.text.upper() for token in reader.tokens]
    data, stop = True, None
    if tokens[-3:] == ["WITH", "NO", "DATA"]:
        data, stop = False, len(tokens) - 3
    elif tokens[-2:] == ["WITH", "DATA"]:
        stop = len(tokens) - 2
    if reader.at("EXECUTE"):
        return session_statements.parse_nested_execute(reader)
    tree, span = reader.query(stop)
    return ast.CreateTableAs(
        name, columns, ast.Select(tree, span), exists, reader.statement_span(), data, temporary, on_commit
    )


def _make_statement(
    reader: Reader, name: str, exists: bool, parts: TableElements, temporary: bool, on_commit: str
) -> ast.CreateTable:
    primary = [one for one in parts.constraints if isinstance(one, Unique) and one.primary]
    if len(primary) > 1:
        reader.skip(-1)
        reader.fail("a table has one primary key only")
    column_names = [column.name.lower() for column in parts.columns]
    key = primary[0].columns if primary else ()
    positions: tuple[int, ...] = ()
    if not parts.likes:
        for one in key:
            if one.lower() not in column_names:
                reader.skip(-1)
                reader.fail(f'primary key column "{one}" does not exist')
        positions = tuple(column_names.index(one.lower()) for one in key)
    key_names = {one.lower() for one in key}
    columns = tuple(
        replace(one, nullable=False) if one.name.lower() in key_names else one for one in parts.columns
    )
    schema = Schema(columns, positions)
    return ast.CreateTable(
        name,
        schema,
        exists,
        reader.span,
        collect_constraints(parts),
        tuple(parts.sequences),
        tuple(parts.likes),
        temporary,
        on_commit,
    )


def collect_constraints(parts: TableElements) -> Constraints:
    """Return the constraints of a table's elements, by kind."""
    rules = tuple(parts.rules) if any(rule != Rule() for rule in parts.rules) else ()
    return Constraints(
        rules,
        tuple(constraint for constraint in parts.constraints if isinstance(constraint, Check)),
        tuple(constraint for constraint in parts.constraints if isinstance(constraint, Unique)),
        tuple(constraint for constraint in parts.constraints if isinstance(constraint, ForeignKey)),
    )


def parse_create_view(reader: Reader, words: set[str]) -> ast.CreateView:
    """Parse the rest of CREATE VIEW; ``words`` are its modifiers."""
    exists = reader.accept("IF", "NOT", "EXISTS")
    name = reader.relation()
    columns = reader.names() if reader.at("(") else ()
    if reader.accept("USING"):
        storage_parameters.parse_access_method(reader)
    is_materialized = "MATERIALIZED" in words
    parameter_names = (
        storage_parameters.TABLE_PARAMETERS if is_materialized else storage_parameters.VIEW_PARAMETERS
    )
    options = (
        storage_parameters.parse_storage_parameters(reader, parameter_names, toast=is_materialized)
        if reader.accept("WITH")
        else {}
    )
    check = options.get("CHECK_OPTION", "")
    if reader.accept("TABLESPACE"):
        storage_parameters.parse_tablespace(reader)
    if reader.at_end:
        raise ProgrammingError(f"CREATE VIEW {name} needs AS and a query", span=reader.span)
    reader.expect("AS")
    texts = [token.text.upper() for token in reader.tokens]
    stop = None
    if texts[-2:] == ["CHECK", "OPTION"] and "WITH" in texts[-4:]:
        stop = len(texts) - 1 - texts[::-1].index("WITH")
        check = texts[stop + 1] if texts[stop + 1] in ("LOCAL", "CASCADED") else "CASCADED"
    if texts[-3:] == ["WITH", "NO", "DATA"]:  # written by dumps; the view is maintained anyway
        stop = len(texts) - 3
    if texts[-2:] == ["WITH", "DATA"]:
        stop = len(texts) - 2
    tree, span = reader.query(stop)
    if "RECURSIVE" in words:
        if not columns:
            raise ProgrammingError(f"CREATE RECURSIVE VIEW {name} needs a list of columns", span=reader.span)
        tree, span = _recursive_query(name.rpartition(".")[2], columns, span)
    return ast.CreateView(
        name,
        columns,
        ast.Select(tree, span),
        is_materialized,
        "REPLACE" in words,
        exists,
        reader.statement_span(),
        bool(words & {"TEMP", "TEMPORARY"}),
        check,
        not is_materialized and is_true(options.get("SECURITY_INVOKER", "OFF")),
    )


def is_true(value: str) -> bool:
    """Return whether the upper-case value of an option is true."""
    return value in ("ON", "TRUE", "YES", "1", "T", "Y")


def _recursive_query(name: str, columns: tuple[str, ...], query: Span) -> tuple[exp.Expr, StatementSpan]:
    """Return the query of CREATE RECURSIVE VIEW as WITH RECURSIVE, and its span."""
    quoted_name, column_list = quote_name(name), ", ".join(map(quote_name, columns))
    inner = query.source[query.start : query.end]
    text = (
        f"WITH RECURSIVE {quoted_name} ({column_list}) AS ({inner}) SELECT {column_list} FROM {quoted_name}"
    )
    return Reader(tokenize(text), text).query()


def parse_create_relation(reader: Reader) -> ast.Statement | None:
    """Parse CREATE of a table, a view or a sequence; None for any other CREATE."""
    words = parse_modifiers(reader)
    temporary = bool(words & {"TEMP", "TEMPORARY"})
    if reader.accept("TABLE"):
        statement = parse_create_table(reader, temporary=temporary)
        if "REPLACE" in words and not isinstance(statement, Execute):
            return replace(statement, or_replace=True)
        return statement
    if reader.accept("VIEW"):
        return parse_create_view(reader, words)
    if reader.accept("SEQUENCE"):
        return parse_create_sequence(reader, temporary=temporary)
    return None


def parse_modifiers(reader: Reader) -> set[str]:
    """Parse CREATE; return the words before the kind of object."""
    reader.expect("CREATE")
    words = set()
    while (word := next((one for one in MODIFIERS if reader.accept(one)), "")) != "":
        words.add(word)
    return words
