"""The options of ``.input``, ``.output`` and ``.printsize``: which there are, and what they may be."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kpg.compiler.catalog import did_you_mean
from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.typing.relations import RelationInfo
from kpg.compiler.rules.core import Direction, Transfer
from kpg.runtime.errors import Span

BOTH: Final = ("IO", "name", "filename", "dbname", "delimiter", "headers", "rfc4180", "compress")
OPTIONS: Final[Mapping[Direction, tuple[str, ...]]] = {
    Direction.INPUT: (*BOTH, "columns", "format"),
    Direction.OUTPUT: (*BOTH, "format", "attributeNames", "quotes", "order_by", "limit", "nullary"),
    Direction.PRINTSIZE: ("IO",),
}
KINDS: Final[Mapping[Direction, tuple[str, ...]]] = {
    Direction.INPUT: ("file", "stdin", "csv", "parquet", "spark", "sqlite", "json", "jsonfile", "command"),
    Direction.OUTPUT: ("file", "stdout", "stdoutprintsize", "csv", "parquet", "sqlite", "json", "jsonfile"),
    Direction.PRINTSIZE: ("stdout", "stdoutprintsize"),
}
"""What IO may be, in any case; ``csv`` is what ``file`` is."""
SAME: Final[Mapping[str, str]] = {"cmd": "command"}
"""Other words for kinds."""
SWITCHES: Final = ("headers", "rfc4180", "compress", "quotes")
TRUE: Final = ("true", "1", "yes")
FALSE: Final = ("false", "0", "no")


def kind_of(options: Mapping[str, str]) -> str:
    """What IO is."""
    given = options.get("IO", "file").lower()
    return SAME.get(given, given)


def is_on(options: Mapping[str, str], name: str) -> bool:
    """Whether a switch is on; none is unless it is given."""
    return options.get(name, "false").lower() in TRUE


def order_of(order_by: str) -> list[tuple[str, bool]]:
    """The columns of ``order_by``, and whether each ascends. ValueError says what is wrong."""
    found: list[tuple[str, bool]] = []
    for part in order_by.split(","):
        name, *direction = part.split() or [""]
        words = [word.lower() for word in direction]
        if not name or words not in ([], ["asc"], ["desc"]):
            raise ValueError(f'"{part.strip()}" is no column with ASC or DESC')
        found.append((name, words != ["desc"]))
    return found


def check_transfer(
    transfer: Transfer,
    relation: RelationInfo,
    options: Iterable[tuple[str, str]],
    others: Sequence[Transfer],
    diagnostics: Diagnostics,
) -> None:
    """Notes options that there are not, or that say nothing, and a directive that was given already."""
    shown, span = f".{transfer.direction.value}", transfer.span
    known = OPTIONS[transfer.direction]
    for name, count in Counter(name for name, _ in options).items():
        if name not in known:
            hint = did_you_mean(name, known) or f"the options of {shown} are {', '.join(known)}"
            diagnostics.error("option", f"{shown} has no option {name}", span, hint=hint)
        elif count > 1:
            diagnostics.error("redefinition", f"option {name} is given twice", span)
    kinds = KINDS[transfer.direction]
    if "IO" in transfer.options and kind_of(transfer.options) not in kinds:
        message = f"{shown} with IO={transfer.options['IO']} is not supported"
        diagnostics.error("option", message, span, hint=f"the kinds are {', '.join(kinds)}")
    for name in SWITCHES:
        if transfer.options.get(name, "true").lower() not in (*TRUE, *FALSE):
            message = f"option {name} is {transfer.options[name]}, neither true nor false"
            diagnostics.error("option", message, span)
    _check_order(transfer, relation, diagnostics, span)
    if any(one == transfer for one in others):
        diagnostics.error("redefinition", f"{shown} {transfer.name} is given twice", span)


def _check_order(transfer: Transfer, relation: RelationInfo, diagnostics: Diagnostics, span: Span) -> None:
    names = [column.name for column in relation.columns]
    order_by, limit = transfer.options.get("order_by"), transfer.options.get("limit")
    try:
        unknown = [name for name, _ in order_of(order_by) if name not in names] if order_by else []
    except ValueError as error:
        diagnostics.error("option", f"order_by: {error}", span)
        unknown = []
    for name in unknown:
        hint = did_you_mean(name, names) or f"the columns are {', '.join(names)}"
        diagnostics.error("option", f"order_by: {relation.name} has no column {name}", span, hint=hint)
    if limit is not None and not (limit.isascii() and limit.isdecimal()):
        diagnostics.error("option", f'limit "{limit}" is no number of rows', span)
    elif limit is not None and not order_by:
        hint = 'say which come first: order_by="..."'
        diagnostics.error("option", "a limit without order_by does not say which rows", span, hint=hint)
