"""CREATE EGO VIEW ``name AS aggregate FROM writes [window] OVER edges [neighbourhood] ...``."""

from kpg.compiler.sql.ddl.reader import Reader
from kpg.compiler.sql.definitions import CreateEgoView


def create_ego_view(reader: Reader, *, or_replace: bool) -> CreateEgoView:
    """What follows CREATE EGO VIEW."""
    span = reader.here()
    name = reader.relation()
    reader.need("AS")
    aggregate = reader.condition()
    reader.need("FROM")
    writes = _source(reader)
    window = _window(reader)
    reader.need("OVER")
    edges = _source(reader)
    neighbourhood = _neighbourhood(reader)
    where = reader.condition() if reader.take("WHERE") else None
    readers = None
    if reader.take("READERS"):
        readers = _enclosed(reader) if reader.at("(") else reader.condition()
    continuous = None
    if reader.take("CONTINUOUS"):
        continuous = _enclosed(reader) if reader.at("(") else reader.condition()
    options = _options(reader)
    reader.end()
    return CreateEgoView(
        name, aggregate, writes, window, edges, neighbourhood, where, readers, continuous, options,
        or_replace, span,
    )  # fmt: skip


def _source(reader: Reader) -> str:
    """A relation's name, or a query between parentheses."""
    return _enclosed(reader) if reader.at("(") else reader.relation()


def _enclosed(reader: Reader) -> str:
    """The text between parentheses."""
    start = reader.tokens[reader.place].end + 1
    reader.skip_enclosed()
    return reader.text[start : reader.tokens[reader.place - 1].start].strip()


def _window(reader: Reader) -> int | str | tuple[str, int] | None:
    if reader.take("LAST"):
        return reader.number()
    if reader.take("WITHIN"):
        return reader.string()
    return ("range", reader.number()) if reader.take("RANGE") else None


def _neighbourhood(reader: Reader) -> str:
    for word in ("OUT", "IN", "BOTH"):
        if reader.take(word):
            steps = "" if reader.done or not reader.tokens[reader.place].text.isdigit() else reader.number()
            return f"{word.lower()} {steps}".strip()
    return _source(reader) if reader.take("BY") else "out"


def _options(reader: Reader) -> tuple[tuple[str, str], ...]:
    """WITH (mode = ..., overlay = ...)."""
    found: list[tuple[str, str]] = []
    if reader.take("WITH"):
        reader.need("(")
        while True:
            option = reader.choice("MODE", "OVERLAY").lower()
            reader.need("=")
            found.append((option, reader.name()))
            if not reader.take(","):
                break
        reader.need(")")
    return tuple(found)
