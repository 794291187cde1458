"""CREATE INDEX."""

from sqlglot import exp

from kpg.compiler.sql.ddl import storage
from kpg.compiler.sql.ddl.reader import Reader
from kpg.compiler.sql.ddl.tables import BY_CODE_POINT, IN_ORDER
from kpg.compiler.sql.definitions import CreateIndex


def create_index(reader: Reader, *, unique: bool) -> CreateIndex:
    """What follows CREATE INDEX."""
    reader.take("CONCURRENTLY")
    exists = reader.take("IF", "NOT", "EXISTS")
    name = "" if reader.at("ON") else reader.relation()
    reader.need("ON")
    reader.take("ONLY")
    table = reader.relation()
    method = storage.access_method(reader, storage.BY_METHOD) if reader.take("USING") else "btree"
    start = reader.place
    columns, plain, elements = _columns(reader, method)
    included = reader.names() if reader.take("INCLUDE") else ()
    distinct = not reader.take("NULLS", "NOT", "DISTINCT")
    reader.take("NULLS", "DISTINCT")
    if reader.take("WITH"):
        storage.parameters(reader, storage.BY_METHOD[method])
    if reader.take("TABLESPACE"):
        storage.tablespace(reader)
    where = reader.condition() if reader.take("WHERE") else ""
    reader.end()
    what = reader.text[reader.tokens[start].start : reader.span.end]
    kept = columns if plain and not where else ()
    of_some = () if kept else elements
    span = reader.span
    return CreateIndex(name, table, kept, what, unique, distinct, exists, span, of_some, where, included)


def _columns(reader: Reader, method: str) -> tuple[tuple[str, ...], bool, tuple[str, ...]]:
    """The columns, whether they are nothing but columns, and all as texts."""
    reader.need("(")
    names: list[str] = []
    elements: list[str] = []
    plain = True
    while True:
        start = reader.place
        for one in reader.expression().find_all(exp.Collate):
            if one.expression.name.lower() not in BY_CODE_POINT:
                reader.skip(-1)
                reader.refuse("COLLATE", IN_ORDER)
        alone = reader.place == start + 1
        plain = plain and alone
        names.append(reader.tokens[start].text)
        last = reader.tokens[reader.place - 1]
        elements.append(reader.text[reader.tokens[start].start : last.end + 1])
        if not (reader.done or reader.at(",") or reader.at(")") or _order(reader)):
            storage.operator_class(reader, method)
        while _order(reader):
            reader.skip(1)
        if not reader.take(","):
            break
    reader.need(")")
    return tuple(names), plain, tuple(elements)


def _order(reader: Reader) -> bool:
    return any(reader.at(word) for word in ("ASC", "DESC", "NULLS", "FIRST", "LAST"))
