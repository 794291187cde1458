"""``kpg functions``: the registry as a list."""

from collections.abc import Iterator
from typing import Final

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from kpg.runtime.functions import aggregates, functions
from kpg.runtime.functions.sql_text import spelling
from kpg.runtime.functions.tables import row_functions

INTERNAL: Final = frozenset({"order_word"})
"""What the planner alone calls."""


def list_functions(pattern: str | None) -> int:
    """Print the functions that ``pattern`` (any case) occurs in; 1 if there is none."""
    wanted = (pattern or "").lower()
    console = Console(highlight=False)
    found = False
    for name, accepts, doc, example in _entries():
        if wanted in f"{name} {doc}".lower():
            found = True
            console.print(Text.assemble((name, "bold"), "  takes ", accepts))
            console.print(Padding(Text(doc), (0, 0, 0, 4)))
            if example:
                console.print(Padding(Text(example, style="green"), (0, 0, 0, 4)))
    if not found:
        console.print(Text(f'no function has "{pattern}" in its name or description'))
    return 0 if found else 1


def _entries() -> Iterator[tuple[str, str, str, str]]:
    for function in sorted(functions(), key=lambda function: spelling(function.name)):
        example = next((f"{text} = {value}" for text, value in function.examples.items()), "")
        if function.name not in INTERNAL:
            accepts = ", or ".join((function.accepts, *function.also))
            yield spelling(function.name), accepts, function.doc, example
    for maker in row_functions():
        example = next((f"{text}: {rows or 'no rows'}" for text, rows in maker.examples.items()), "")
        yield maker.name, maker.accepts, maker.doc, example
    for aggregate in aggregates():
        example = next((f"of {rows}: {value}" for rows, value in aggregate.examples.items()), "")
        yield aggregate.name, aggregate.accepts, aggregate.doc, example
