"""CREATE TABLE: columns with what belongs to them, constraints of the table, LIKE."""

from dataclasses import replace
from typing import Final

from kpg.compiler.constraints import Check, Constraint, Constraints, ForeignKey, Rule, Unique
from kpg.compiler.constraints import Sequence as Numbers
from kpg.compiler.sql import statements as ast
from kpg.compiler.sql.ddl import storage
from kpg.compiler.sql.ddl.constraints import column_constraint, table_constraint
from kpg.compiler.sql.ddl.reader import Reader
from kpg.compiler.sql.ddl.sequences import created, options
from kpg.compiler.sql.definitions import Options
from kpg.compiler.sql.session import Execute
from kpg.runtime import types as t
from kpg.runtime.types import ColumnDef, Schema, Type
from kpg.runtime.unsupported_features import unsupported_syntax

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
    if name.lower() in (known.name.lower() for known in parts.columns):
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
    parts.rules.append(behind.rule if digits is None else replace(behind.rule, digits=digits))


def _no_type(name: str, place: object) -> Exception:
    from kpg.runtime.errors import ProgrammingError, Span

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
                storage.storage(reader)
            elif reader.take("COMPRESSION"):
                storage.compression(reader)
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
        from kpg.compiler.sql.ddl.partitions import partition_by

        partitioned = partition_by(reader, name)
    distribution = _distribution(reader)
    on_commit = _options(reader)
    distribution = distribution or _distribution(reader)
    known = {column.name.lower() for column in parts.columns}
    if distribution not in ("", "*") and distribution.lower() not in known and not parts.likes:
        reader.skip(-2)
        reader.wrong(f'column "{distribution}" does not exist')
    reader.end()
    made = _built(reader, name, exists, parts, temporary, on_commit)
    if partitioned is not None:
        return replace(made, partitioned=partitioned)  # each partition may say how it is distributed
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
    from kpg.compiler.sql.ddl.partitions import bound_of, partition_by

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
    from kpg.runtime.errors import ProgrammingError

    return ProgrammingError("CREATE TABLE needs a list of columns", span=reader.span)


def _options(reader: Reader) -> str:
    """What may stand behind the columns; what becomes of a temporary table at a commit."""
    if reader.at("PARTITION", "BY") or reader.at("PARTITION"):
        reader.refuse("PARTITION BY")
    if reader.take("USING"):
        storage.access_method(reader)
    if reader.take("STRICT") or reader.take("WITHOUT", "ROWID") or reader.take("WITHOUT", "OIDS"):
        pass
    elif reader.take("WITH"):
        storage.parameters(reader, storage.TABLE, toast=True)
    action = ""
    if reader.take("ON", "COMMIT"):
        action = reader.choice("PRESERVE ROWS", "DELETE ROWS", "DROP")
    if reader.take("TABLESPACE"):
        storage.tablespace(reader)
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
        from kpg.compiler.sql.ddl.session import executed

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
