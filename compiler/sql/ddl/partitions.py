"""PARTITION BY and PARTITION OF."""

from kpg.compiler.sql.ddl.reader import Reader
from kpg.compiler.triggers import Bound, Partitioned


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
