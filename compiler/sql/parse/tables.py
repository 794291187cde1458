"""CREATE TABLE and CREATE VIEW.

The clauses shared with ALTER are here too: columns, constraints, partitions and sequence options.
"""

from dataclasses import replace
from typing import Any, Final

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
from kpg.compiler.sql.parse.reader import Reader
from kpg.compiler.sql.parse.statements import Execute
from kpg.compiler.sql.parse.tokenizer import tokenize
from kpg.runtime import types as t
from kpg.runtime.errors import ProgrammingError, Span
from kpg.runtime.types import ColumnDef, Schema, Type
from kpg.runtime.unsupported_features import unsupported_syntax

ACTIONS: Final = ("NO ACTION", "RESTRICT", "CASCADE", "SET NULL", "SET DEFAULT")

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
"""What may stand between CREATE and what it makes."""


def column_constraint(reader: Reader, column: str, named: str) -> Constraint:
    """A constraint of one column."""
    if reader.take("PRIMARY", "KEY"):
        found: Constraint = _with_options(reader, Unique(named, (column,), primary=True))
    elif reader.take("UNIQUE"):
        found = _with_options(reader, Unique(named, (column,), nulls_distinct=_nulls_distinct(reader)))
    elif reader.take("REFERENCES"):
        found = _references(reader, named, (column,))
    elif reader.at("DEFERRABLE") or reader.at("INITIALLY"):
        reader.unexpected("a constraint before DEFERRABLE")
    else:
        reader.unexpected()
    return found


def table_constraint(reader: Reader, name: str = "") -> Constraint:
    """A constraint of a table."""
    if reader.take("CONSTRAINT"):
        name = reader.name()
    if reader.take("CHECK"):
        check = Check(name, reader.enclosed())
        reader.take("NO", "INHERIT")
        _deferral(reader, "CHECK")
        return check
    if reader.take("FOREIGN", "KEY"):
        columns = reader.names()
        reader.need("REFERENCES")
        return _references(reader, name, columns)
    if reader.at("EXCLUDE"):
        raise unsupported_syntax("EXCLUDE", reader.here())
    if reader.take("PRIMARY", "KEY"):
        found = Unique(name, _columns(reader), primary=True)
    elif reader.take("UNIQUE"):
        distinct = _nulls_distinct(reader)
        found = Unique(name, _columns(reader), nulls_distinct=distinct)
    else:
        reader.unexpected("a constraint")
    return _with_options(reader, found)


def _columns(reader: Reader) -> tuple[str, ...]:
    place = reader.place
    names = reader.names() if not reader.at("USING") else reader.refuse("a constraint USING INDEX")
    if len({name.lower() for name in names}) < len(names):
        reader.skip(place - reader.place)
        reader.wrong("a column is named twice in a key")
    return names


def _nulls_distinct(reader: Reader) -> bool:
    if reader.take("NULLS", "NOT", "DISTINCT"):
        return False
    reader.take("NULLS", "DISTINCT")
    return True


def _with_options(reader: Reader, key: Unique) -> Unique:
    """UNIQUE or PRIMARY KEY with its INCLUDE, behind which storage parameters and deferral may stand."""
    if reader.take("INCLUDE"):
        key = replace(key, included=reader.names())
    if reader.take("WITH"):
        storage_parameters.parameters(reader, storage_parameters.INDEX)
    if reader.take("USING", "INDEX", "TABLESPACE"):
        storage_parameters.tablespace(reader)
    _, deferred = _deferral(reader, "")
    if deferred:
        reader.skip(-1)
        reader.refuse("a key that is INITIALLY DEFERRED", "keys are checked at the end of each statement")
    return key


def _deferral(reader: Reader, refused: str) -> tuple[bool, bool]:
    """DEFERRABLE and INITIALLY, in any order; whether it can be, and is, deferred."""
    deferrable = deferred = False
    while True:
        if reader.take("NOT", "DEFERRABLE"):
            continue
        if reader.take("DEFERRABLE"):
            deferrable = True
        elif reader.take("INITIALLY", "DEFERRED"):
            deferrable = deferred = True
        elif not reader.take("INITIALLY", "IMMEDIATE"):
            break
    if refused and deferrable:
        reader.skip(-1)
        reader.wrong(f"{refused} constraints cannot be deferrable")
    return deferrable, deferred


def _references(reader: Reader, name: str, columns: tuple[str, ...]) -> ForeignKey:
    target = reader.relation()
    targets = reader.names() if reader.at("(") else ()
    if targets and len(targets) != len(columns):
        reader.wrong(f"a foreign key of {len(columns)} columns refers to {len(targets)}")
    found = ForeignKey(name, columns, target, targets)
    while True:
        if reader.take("MATCH"):
            kind = reader.choice("SIMPLE", "FULL", "PARTIAL")
            if kind == "PARTIAL":
                reader.skip(-1)
                reader.refuse("MATCH PARTIAL")
            found = replace(found, match=kind)
        elif reader.take("ON", "DELETE"):
            action = reader.choice(*ACTIONS)
            chosen = reader.names() if action.startswith("SET") and reader.at("(") else ()
            found = replace(found, on_delete=action, set_columns=chosen)
        elif reader.take("ON", "UPDATE"):
            found = replace(found, on_update=reader.choice(*ACTIONS))
        else:
            break
    deferrable, deferred = _deferral(reader, "")
    return replace(found, deferrable=deferrable, deferred=deferred)


def partition_by(reader: Reader, name: str) -> Partitioned | None:
    """PARTITION BY kind (keys), if that comes next."""
    if not reader.take("PARTITION", "BY"):
        return None
    kind = reader.choice("RANGE", "LIST", "HASH")
    reader.need("(")
    keys = [_key(reader)]
    while reader.take(","):
        keys.append(_key(reader))
    reader.need(")")
    return Partitioned(name, kind, tuple(keys))


def _key(reader: Reader) -> str:
    text = reader.value()
    if reader.take("COLLATE"):
        reader.name()
    if not reader.at(",") and not reader.at(")"):
        reader.name()
    return text


def bound_of(reader: Reader, parent: str) -> Bound:
    """FOR VALUES ..., or DEFAULT."""
    if reader.take("DEFAULT"):
        return Bound(parent, "DEFAULT", ())
    reader.need("FOR", "VALUES")
    if reader.take("IN"):
        return Bound(parent, "IN", (_values(reader),))
    if reader.take("FROM"):
        low = _values(reader)
        reader.need("TO")
        return Bound(parent, "FROM", (low, _values(reader)))
    reader.need("WITH")
    reader.need("(", "MODULUS")
    modulus = str(reader.number())
    reader.need(",", "REMAINDER")
    remainder = str(reader.number())
    reader.need(")")
    return Bound(parent, "WITH", ((modulus,), (remainder,)))


def _values(reader: Reader) -> tuple[str, ...]:
    reader.need("(")
    found = [reader.value()]
    while reader.take(","):
        found.append(reader.value())
    reader.need(")")
    return tuple(found)


MOST: Final = {"smallint": 2**15 - 1, "integer": 2**31 - 1, "bigint": 2**63 - 1}
TYPES: Final = {"int2": "smallint", "int": "integer", "int4": "integer", "int8": "bigint"}
NUMBERS: Final = {
    "INCREMENT BY": "increment",
    "INCREMENT": "increment",
    "START WITH": "start",
    "START": "start",
    "RESTART WITH": "restart",
    "MINVALUE": "least",
    "MAXVALUE": "most",
    "CACHE": "cache",
}
FLAGS: Final = {
    "NO MINVALUE": ("least", None),
    "NO MAXVALUE": ("most", None),
    "NO CYCLE": ("cycle", False),
    "CYCLE": ("cycle", True),
}


def options(reader: Reader) -> Options:
    """Options of a sequence, up to something else."""
    found: list[tuple[str, Any]] = []
    while not reader.done and (one := _option(reader)) is not None:
        found.append(one)
    return tuple(found)


def _option(reader: Reader) -> tuple[str, Any] | None:
    for words, (name, value) in FLAGS.items():
        if reader.take(*words.split()):
            return name, value
    for words, name in NUMBERS.items():
        if reader.take(*words.split()):
            return name, reader.number()
    if reader.take("RESTART"):
        at_number = not reader.done and reader.tokens[reader.place].text.lstrip("-").isdigit()
        return "restart", reader.number() if at_number or reader.at("-") else None
    if reader.take("AS"):
        word = reader.name().lower()
        if TYPES.get(word, word) not in MOST:
            reader.wrong("a sequence is of type smallint, integer or bigint")
        return "type", TYPES.get(word, word)
    if reader.take("SEQUENCE", "NAME"):
        return "name", reader.relation().removeprefix("public.")
    if reader.take("OWNED", "BY"):
        return "owner", _owner(reader)
    if reader.take("SET"):
        return _option(reader)
    return None


def _owner(reader: Reader) -> tuple[str, str] | None:
    parts = [reader.name()]
    while reader.take("."):
        parts.append(reader.name())
    if len(parts) == 1 and parts[0].lower() != "none":
        reader.wrong("OWNED BY takes table.column, or NONE")
    return None if len(parts) == 1 else (".".join(parts[:-1]), parts[-1])


def settled(old: Sequence, given: Options, span: Span | None, *, new: bool) -> Sequence:
    """A sequence with options, and with the bounds that go with its type and direction."""
    options = dict(given)

    def wrong(message: str) -> ProgrammingError:
        return ProgrammingError(message, span=span)

    kind: Any = options.get("type", old.type)
    increment: Any = options.get("increment", old.increment)
    cache: Any = options.get("cache", 1)
    if cache < 1:
        raise wrong(f"CACHE ({cache}) must be greater than zero")
    if not increment:
        raise wrong("INCREMENT must not be zero")
    most = MOST[kind]
    bounds = (1, most) if increment > 0 else (-most - 1, -1)
    low: Any = options.get("least", None if new else old.least)
    high: Any = options.get("most", None if new or kind != old.type else old.most)
    low = bounds[0] if low is None else low
    high = bounds[1] if high is None else high
    if low >= high:
        raise wrong(f"MINVALUE {low} must be less than MAXVALUE {high}")
    start: Any = options.get("start", (low if increment > 0 else high) if new else old.start)
    if not low <= start <= high:
        raise wrong(f"START value {start} is not between MINVALUE {low} and MAXVALUE {high}")
    name: Any = options.get("name", old.name)
    cycle, owner = bool(options.get("cycle", old.cycle)), options.get("owner", old.owner)
    return Sequence(name, start, increment, low, high, cycle, kind, owner)  # type: ignore[arg-type]


def created(name: str, given: Options, type_: str, span: Span | None) -> Sequence:
    """A new sequence."""
    fresh = Sequence(name, most=MOST[type_], type=type_)
    return replace(settled(fresh, given, span, new=True), name=dict(given).get("name", name))  # type: ignore[arg-type]


def create_sequence(reader: Reader, *, temporary: bool) -> CreateSequence:
    """What follows CREATE SEQUENCE."""
    exists = reader.take("IF", "NOT", "EXISTS")
    name = reader.relation()
    found = CreateSequence(name, options(reader), exists, temporary, reader.span)
    reader.end()
    created(name, found.options, "bigint", reader.span)
    return found


def alter_sequence(reader: Reader) -> AlterSequence:
    """What follows ALTER SEQUENCE."""
    exists = reader.take("IF", "EXISTS")
    name = reader.relation()
    rename = ""
    given: Options = ()
    if reader.take("RENAME", "TO"):
        rename = reader.name()
    elif reader.take("OWNER", "TO"):
        reader.name()
    else:
        given = options(reader)
    reader.end()
    return AlterSequence(name, given, exists, rename, reader.span)


SERIALS: Final = {
    **dict.fromkeys(("smallserial", "serial2"), (t.SMALLINT, "smallint")),
    **dict.fromkeys(("serial", "serial4"), (t.INTEGER, "integer")),
    **dict.fromkeys(("bigserial", "serial8"), (t.BIGINT, "bigint")),
}
SEQUENCES: Final = {t.SMALLINT: "smallint", t.INTEGER: "integer", t.BIGINT: "bigint"}
BY_CODE_POINT: Final = ("c", "posix", "ucs_basic", "c.utf-8")
IN_ORDER: Final = 'texts are compared by code point, as by COLLATE "C"'
LIKE_PARTS: Final = (
    "DEFAULTS",
    "CONSTRAINTS",
    "IDENTITY",
    "GENERATED",
    "INDEXES",
    "COMMENTS",
    "STATISTICS",
    "STORAGE",
)
TABLE_PARTS: Final = ("CONSTRAINT", "CHECK", "UNIQUE", "PRIMARY KEY", "FOREIGN KEY", "EXCLUDE", "LIKE")


class Parts:
    """What has been read of a table's definition."""

    def __init__(self) -> None:
        self.columns: list[ColumnDef] = []
        self.names: set[str] = set()
        """The names of the columns by :func:`column`, in lower case."""
        self.rules: list[Rule] = []
        self.constraints: list[Constraint] = []
        self.sequences: list[tuple[str, Numbers]] = []
        self.likes: list[ast.Like] = []


def elements(reader: Reader) -> Parts:
    """What stands between the parentheses of CREATE TABLE."""
    parts = Parts()
    reader.need("(")
    if reader.take(")"):
        return parts
    while True:
        if reader.take("LIKE"):
            parts.likes.append(_like(reader, len(parts.columns)))
        elif any(reader.at(*words.split()) for words in TABLE_PARTS):
            parts.constraints.append(table_constraint(reader))
        else:
            column(reader, parts)
        if not reader.take(","):
            break
    reader.need(")")
    return parts


def _like(reader: Reader, place: int) -> ast.Like:
    relation = reader.relation()
    including: set[str] = set()
    while True:
        if reader.take("INCLUDING", "ALL"):
            including.update(LIKE_PARTS)
        elif reader.take("EXCLUDING", "ALL"):
            including.clear()
        elif reader.take("INCLUDING"):
            including.add(reader.choice(*LIKE_PARTS))
        elif reader.take("EXCLUDING"):
            including.discard(reader.choice(*LIKE_PARTS))
        else:
            return ast.Like(relation, place, frozenset(including))


def column(reader: Reader, parts: Parts) -> None:
    """One column: its name, type and constraints."""
    place, name = reader.here(), reader.name()
    if name.lower() in parts.names:
        reader.skip(-1)
        reader.wrong(f'column "{name}" is defined twice')
    if reader.done or reader.at(",") or reader.at(")"):
        raise _no_type(name, place)
    serial = None
    if not reader.done and (word := reader.tokens[reader.place].text.lower()) in SERIALS:
        reader.skip(1)
        serial = SERIALS[word]
    type_ = serial[0] if serial else reader.type()
    digits = None if serial else reader.digits
    behind = _Column(reader, name, type_, parts)
    if serial:
        parts.sequences.append((name, created("", (), serial[1], reader.span)))
        behind.nullable = False
    behind.read()
    parts.columns.append(ColumnDef(name, type_, behind.nullable))
    parts.names.add(name.lower())
    parts.rules.append(behind.rule if digits is None else replace(behind.rule, digits=digits))


def _no_type(name: str, place: object) -> Exception:

    assert isinstance(place, Span)
    return ProgrammingError(f'column "{name}" has no type', span=place)


def collation(reader: Reader) -> None:
    """A collation by name; only those that compare by code point, as kpg does."""
    if reader.done or reader.tokens[reader.place].text.lower() not in BY_CODE_POINT:
        reader.refuse("COLLATE", IN_ORDER)
    reader.skip(1)


class _Column:
    """What stands behind a column's type."""

    def __init__(self, reader: Reader, name: str, type_: Type, parts: Parts) -> None:
        self.reader = reader
        self.name = name
        self.type = type_
        self.parts = parts
        self.nullable = True
        self.rule = Rule()

    def read(self) -> None:
        reader = self.reader
        while not (reader.done or reader.at(",") or reader.at(")")):
            named = reader.name() if reader.take("CONSTRAINT") else ""
            if reader.take("NOT", "NULL"):
                self.nullable = False
                reader.take("NO", "INHERIT")
            elif reader.take("NULL"):
                self.nullable = True
            elif reader.take("DEFAULT"):
                self._once(self.rule.default, "DEFAULT")
                self.rule = replace(self.rule, default=reader.value())
            elif reader.take("GENERATED"):
                self._generated()
            elif reader.at("CHECK"):
                check = table_constraint(reader, named)
                assert isinstance(check, Check)
                self.parts.constraints.append(replace(check, column=self.name))
            elif reader.take("COLLATE"):
                collation(reader)
            elif reader.take("AUTOINCREMENT") or reader.take("AUTO_INCREMENT"):
                self._identity("BY DEFAULT")
            elif reader.take("STORAGE"):
                storage_parameters.storage(reader)
            elif reader.take("COMPRESSION"):
                storage_parameters.compression(reader)
            else:
                self.parts.constraints.append(column_constraint(reader, self.name, named))

    def _once(self, before: str, what: str) -> None:
        if before:
            self.reader.wrong(f'column "{self.name}" has two of {what}')

    def _generated(self) -> None:
        reader = self.reader
        kind = reader.choice("ALWAYS", "BY DEFAULT")
        reader.need("AS")
        if not reader.take("IDENTITY"):
            if kind != "ALWAYS":
                reader.unexpected("IDENTITY")
            self.rule = replace(self.rule, generated=reader.enclosed())
            if reader.take("VIRTUAL"):
                reader.skip(-1)
                reader.refuse("a VIRTUAL generated column", "write STORED")
            reader.need("STORED")
            return
        self._identity(kind)

    def _identity(self, kind: str) -> None:
        reader = self.reader
        if self.type not in SEQUENCES:
            reader.wrong(f'identity column "{self.name}" must be smallint, integer or bigint')
        given: Options = ()
        if reader.take("("):
            given = options(reader)
            reader.need(")")
        self.parts.sequences.append((self.name, created("", given, SEQUENCES[self.type], reader.span)))
        self.rule = replace(self.rule, identity=kind)
        self.nullable = False


def create_table(reader: Reader, *, temporary: bool) -> ast.CreateTable | ast.CreateTableAs | Execute:
    """What follows CREATE TABLE."""
    exists = reader.take("IF", "NOT", "EXISTS")
    name = reader.relation()
    if reader.take("PARTITION", "OF"):
        return _partition(reader, name, exists)
    if reader.at("OF"):
        reader.refuse("a typed table")
    if reader.at("AS") or _names_only(reader):
        return _create_as(reader, name, exists, temporary)
    if not reader.at("("):
        raise reader_error(reader)
    parts = elements(reader)
    if reader.at("INHERITS"):
        raise unsupported_syntax("INHERITS", reader.here())
    partitioned = None
    if reader.at("PARTITION", "BY"):
        partitioned = partition_by(reader, name)
    distribution = _distribution(reader)
    on_commit = _options(reader)
    distribution = distribution or _distribution(reader)
    if distribution and partitioned is not None:
        reader.skip(-1)
        reader.refuse(f"{'REPLICATED' if distribution == '*' else 'DISTRIBUTED BY'} on a partitioned table")
    known = {column.name.lower() for column in parts.columns}
    if distribution not in ("", "*") and distribution.lower() not in known and not parts.likes:
        reader.skip(-2)
        reader.wrong(f'column "{distribution}" does not exist')
    reader.end()
    made = _built(reader, name, exists, parts, temporary, on_commit)
    if partitioned is not None:
        return replace(made, partitioned=partitioned)
    return replace(made, distribution=distribution) if distribution else made


def _distribution(reader: Reader) -> str:
    """DISTRIBUTED BY (column) or REPLICATED: the column, or ``*``."""
    if reader.take("REPLICATED"):
        return "*"
    if not reader.take("DISTRIBUTED", "BY"):
        return ""
    reader.need("(")
    column = reader.name()
    if reader.at(","):
        reader.refuse("DISTRIBUTED BY several columns")
    reader.need(")")
    return column


def _partition(reader: Reader, name: str, exists: bool) -> ast.CreateTable:
    """What follows PARTITION OF."""

    parent = reader.relation()
    parts = _own_elements(reader)
    bound = bound_of(reader, parent)
    partitioned = partition_by(reader, name)
    _options(reader)
    reader.end()
    made = ast.CreateTable(name, Schema(tuple(parts.columns)), exists, reader.span, gathered(parts))
    return replace(made, partition=bound, partitioned=partitioned)


def _own_elements(reader: Reader) -> Parts:
    """What a partition says of columns that it has of the whole table, and its own constraints."""
    parts = Parts()
    if not reader.take("("):
        return parts
    while True:
        if any(reader.at(*words.split()) for words in TABLE_PARTS):
            parts.constraints.append(table_constraint(reader))
        else:
            name = reader.name()
            reader.take("WITH", "OPTIONS")
            behind = _Column(reader, name, t.TEXT, parts)
            behind.read()
            parts.columns.append(ColumnDef(name, t.TEXT, behind.nullable))
            parts.rules.append(behind.rule)
        if not reader.take(","):
            break
    reader.need(")")
    return parts


def reader_error(reader: Reader) -> Exception:
    """A CREATE TABLE without columns."""

    return ProgrammingError("CREATE TABLE needs a list of columns", span=reader.span)


def _options(reader: Reader) -> str:
    """What may stand behind the columns; what becomes of a temporary table at a commit."""
    if reader.at("PARTITION", "BY") or reader.at("PARTITION"):
        reader.refuse("PARTITION BY")
    if reader.take("USING"):
        storage_parameters.access_method(reader)
    if reader.take("STRICT") or reader.take("WITHOUT", "ROWID") or reader.take("WITHOUT", "OIDS"):
        pass
    elif reader.take("WITH"):
        storage_parameters.parameters(reader, storage_parameters.TABLE, toast=True)
    action = ""
    if reader.take("ON", "COMMIT"):
        action = reader.choice("PRESERVE ROWS", "DELETE ROWS", "DROP")
    if reader.take("TABLESPACE"):
        storage_parameters.tablespace(reader)
    return "" if action == "PRESERVE ROWS" else action


def _names_only(reader: Reader) -> bool:
    """Whether names between parentheses and AS, or a WITH before it, come next."""
    texts = [token.text.upper() for token in reader.rest()]
    if not texts or texts[0] not in ("(", "WITH", "ON", "USING", "TABLESPACE"):
        return False
    depth = 0
    for text in texts:
        depth += (text == "(") - (text == ")")
        if text == "AS" and depth == 0:
            return True
    return False


def _create_as(reader: Reader, name: str, exists: bool, temporary: bool) -> ast.CreateTableAs | Execute:
    columns = reader.names() if reader.at("(") else ()
    on_commit = _options(reader)
    reader.need("AS")
    tokens = [token.text.upper() for token in reader.tokens]
    data, stop = True, None
    if tokens[-3:] == ["WITH", "NO", "DATA"]:
        data, stop = False, len(tokens) - 3
    elif tokens[-2:] == ["WITH", "DATA"]:
        stop = len(tokens) - 2
    if reader.at("EXECUTE"):
        from kpg.compiler.sql.parse.session_statements import executed  # lazy: EXECUTE

        return executed(reader)
    tree, span = reader.query(stop)
    return ast.CreateTableAs(
        name, columns, ast.Select(tree, span), exists, reader.span, data, temporary, on_commit
    )


def _built(
    reader: Reader, name: str, exists: bool, parts: Parts, temporary: bool, on_commit: str
) -> ast.CreateTable:
    primary = [one for one in parts.constraints if isinstance(one, Unique) and one.primary]
    if len(primary) > 1:
        reader.skip(-1)
        reader.wrong("a table has one primary key only")
    known = [column.name.lower() for column in parts.columns]
    key = primary[0].columns if primary else ()
    positions: tuple[int, ...] = ()
    if not parts.likes:
        for one in key:
            if one.lower() not in known:
                reader.skip(-1)
                reader.wrong(f'primary key column "{one}" does not exist')
        positions = tuple(known.index(one.lower()) for one in key)
    named = {one.lower() for one in key}
    columns = tuple(
        replace(one, nullable=False) if one.name.lower() in named else one for one in parts.columns
    )
    schema = Schema(columns, positions)
    return ast.CreateTable(
        name,
        schema,
        exists,
        reader.span,
        gathered(parts),
        tuple(parts.sequences),
        tuple(parts.likes),
        temporary,
        on_commit,
    )


def gathered(parts: Parts) -> Constraints:
    """The constraints of a table's parts, by kind."""
    rules = tuple(parts.rules) if any(rule != Rule() for rule in parts.rules) else ()
    return Constraints(
        rules,
        tuple(one for one in parts.constraints if isinstance(one, Check)),
        tuple(one for one in parts.constraints if isinstance(one, Unique)),
        tuple(one for one in parts.constraints if isinstance(one, ForeignKey)),
    )


def create_view(reader: Reader, words: set[str]) -> ast.CreateView:
    """What follows CREATE VIEW; ``words`` stand between."""
    exists = reader.take("IF", "NOT", "EXISTS")
    name = reader.relation()
    columns = reader.names() if reader.at("(") else ()
    if reader.take("USING"):
        storage_parameters.access_method(reader)
    kept = "MATERIALIZED" in words
    known = storage_parameters.TABLE if kept else storage_parameters.VIEW
    options = storage_parameters.parameters(reader, known, toast=kept) if reader.take("WITH") else {}
    check = options.get("CHECK_OPTION", "")
    if reader.take("TABLESPACE"):
        storage_parameters.tablespace(reader)
    if reader.done:
        raise ProgrammingError(f"CREATE VIEW {name} needs AS and a query", span=reader.span)
    reader.need("AS")
    texts = [token.text.upper() for token in reader.tokens]
    stop = None
    if texts[-2:] == ["CHECK", "OPTION"] and "WITH" in texts[-4:]:
        stop = len(texts) - 1 - texts[::-1].index("WITH")
        check = texts[stop + 1] if texts[stop + 1] in ("LOCAL", "CASCADED") else "CASCADED"
    if texts[-3:] == ["WITH", "NO", "DATA"]:  # as dumps write it: it is up to date all the same
        stop = len(texts) - 3
    if texts[-2:] == ["WITH", "DATA"]:
        stop = len(texts) - 2
    tree, span = reader.query(stop)
    if "RECURSIVE" in words:
        if not columns:
            raise ProgrammingError(f"CREATE RECURSIVE VIEW {name} needs a list of columns", span=reader.span)
        tree, span = _recursive(name.rpartition(".")[2], columns, span)
    return ast.CreateView(
        name,
        columns,
        ast.Select(tree, span),
        kept,
        "REPLACE" in words,
        exists,
        reader.span,
        bool(words & {"TEMP", "TEMPORARY"}),
        check,
        not kept and is_on(options.get("SECURITY_INVOKER", "OFF")),
    )


def is_on(value: str) -> bool:
    """Whether the value of an option says yes."""
    return value in ("ON", "TRUE", "YES", "1", "T", "Y")


def _recursive(name: str, columns: tuple[str, ...], query: Span) -> tuple[exp.Expr, Span]:
    """The query of a recursive view, which is named by itself."""
    named, listed = quote_name(name), ", ".join(map(quote_name, columns))
    inner = query.source[query.start : query.end]
    text = f"WITH RECURSIVE {named} ({listed}) AS ({inner}) SELECT {listed} FROM {named}"
    return Reader(tokenize(text), text).query()


def create(reader: Reader) -> ast.Statement | None:
    """CREATE of a table, a view or a sequence; None for another CREATE."""
    words = modifiers(reader)
    temporary = bool(words & {"TEMP", "TEMPORARY"})
    if reader.take("TABLE"):
        made = create_table(reader, temporary=temporary)
        if "REPLACE" in words and not isinstance(made, Execute):
            return replace(made, or_replace=True)
        return made
    if reader.take("VIEW"):
        return create_view(reader, words)
    if reader.take("SEQUENCE"):
        return create_sequence(reader, temporary=temporary)
    return None


def modifiers(reader: Reader) -> set[str]:
    """The words between CREATE and the kind of what it makes."""
    reader.need("CREATE")
    words = set()
    while (word := next((one for one in MODIFIERS if reader.take(one)), "")) != "":
        words.add(word)
    return words
