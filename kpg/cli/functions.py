"""``kpg functions``: the registry as a list."""

from collections.abc import Iterable, Iterator
from typing import Final

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from kpg.runtime.functions import (
    Accumulable,
    Basic,
    Composed,
    Folded,
    Hierarchical,
    Maintenance,
    aggregates,
    functions,
    window_functions,
)
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


CHANGE_COSTS: Final[dict[type[Maintenance], str]] = {
    Accumulable: "O(change)",
    Folded: "O(change), state in Python",
    Composed: "the cost of the aggregates it is composed of",
    Hierarchical: "O(log group)",
    Basic: "O(group)",
}
"""What a changed row of a group costs, by how the aggregate is maintained."""

MARKDOWN_HEAD: Final = """# Functions

This page is the output of `kpg functions --markdown`. A test compares the two.
`kpg functions TEXT` shows the argument types, the meaning and an example of each function.
Types and behaviour are those of Postgres 16.
Postgres' own names of operators, such as `int4pl`, are functions too.
"""


def as_markdown() -> str:
    """Return the names of all functions as the page docs/reference/functions.md."""
    spelled = {function.name: spelling(function.name) for function in functions()}
    scalar = [name for name, text in spelled.items() if name == text and name not in INTERNAL]
    operators = {text.partition("(")[0] for name, text in spelled.items() if name != text}
    page = [MARKDOWN_HEAD, "## Operators\n", f"{_listed(operators)}.\n"]
    page += ["## Scalar functions\n", f"{_listed(scalar)}.\n"]
    page += ["## Set-returning functions\n", f"{_listed(maker.name for maker in row_functions())}.\n"]
    page += ["## Aggregates\n", "| a change costs | aggregates |\n| --- | --- |"]
    for kind, cost in CHANGE_COSTS.items():
        names = (aggregate.name for aggregate in aggregates() if isinstance(aggregate.maintenance, kind))
        page.append(f"| {cost} | {_listed(names)} |")
    page += ["\n## Window functions\n", "Every aggregate is a window function too.\n"]
    page.append(f"{_listed(function.name for function in window_functions())}.\n")
    return "\n".join(page)


def _listed(names: Iterable[str]) -> str:
    """Return the names as code, in alphabetical order."""
    return ", ".join(f"`{name}`" for name in sorted(names))
