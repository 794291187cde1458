"""CREATE INDEX."""

from kpg.compiler.sql.ddl.reader import Reader
from kpg.compiler.sql.definitions import CreateIndex


def create_index(reader: Reader, *, unique: bool) -> CreateIndex:
    """What follows CREATE INDEX."""
    reader.take("CONCURRENTLY")
    exists = reader.take("IF", "NOT", "EXISTS")
    name = "" if reader.at("ON") else reader.relation()
    reader.need("ON")
    reader.take("ONLY")
    table = reader.relation()
    if reader.take("USING"):
        reader.name()
    start = reader.place
    columns, plain = _columns(reader)
    if reader.take("INCLUDE"):
        reader.names()
    distinct = not reader.take("NULLS", "NOT", "DISTINCT")
    reader.take("NULLS", "DISTINCT")
    if reader.take("WITH"):
        reader.skip_enclosed()
    if reader.take("TABLESPACE"):
        reader.name()
    partial = reader.take("WHERE")
    if partial:
        reader.condition()
    reader.end()
    if unique and (partial or not plain):
        reader.skip(start - reader.place)
        reader.refuse("a UNIQUE index of some rows, or over expressions")
    what = reader.text[reader.tokens[start].start : reader.span.end]
    kept = columns if plain and not partial else ()
    return CreateIndex(name, table, kept, what, unique, distinct, exists, reader.span)


def _columns(reader: Reader) -> tuple[tuple[str, ...], bool]:
    """The columns, and whether they are nothing but columns."""
    reader.need("(")
    names: list[str] = []
    plain = True
    while True:
        start = reader.place
        reader.expression()
        alone = reader.place == start + 1
        plain = plain and alone
        names.append(reader.tokens[start].text)
        if reader.take("COLLATE"):
            reader.name()
        if not (reader.done or reader.at(",") or reader.at(")") or _order(reader)):
            reader.name()  # an operator class
            if reader.at("("):
                reader.skip_enclosed()
        while _order(reader):
            reader.skip(1)
        if not reader.take(","):
            break
    reader.need(")")
    return tuple(names), plain


def _order(reader: Reader) -> bool:
    return any(reader.at(word) for word in ("ASC", "DESC", "NULLS", "FIRST", "LAST"))
