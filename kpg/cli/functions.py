"""``kpg functions``: lists the function registry."""

import textwrap
from collections.abc import Iterator
from typing import Final

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from kpg.runtime.functions import (
    Accumulable,
    Basic,
    Composite,
    Hierarchical,
    Invertible,
    Maintenance,
    aggregates,
    functions,
    window_functions,
)
from kpg.runtime.functions.table_functions import row_functions
from kpg.runtime.scalar import function_text

INTERNAL: Final = frozenset({"order_word"})
"""Functions that only the planner calls."""


def list_functions(pattern: str | None) -> int:
    """Print the functions whose name or description contains ``pattern``, in any case.

    Returns 1 if there are none.
    """
    text = (pattern or "").lower()
    console = Console(highlight=False)
    has_match = False
    for name, accepts, doc, example in _entries():
        if text in f"{name} {doc}".lower():
            has_match = True
            console.print(Text.assemble((name, "bold"), "  takes ", accepts))
            console.print(Padding(Text(doc), (0, 0, 0, 4)))
            if example:
                console.print(Padding(Text(example, style="green"), (0, 0, 0, 4)))
    if not has_match:
        console.print(Text(f'no function has "{pattern}" in its name or description'))
    return 0 if has_match else 1


def _entries() -> Iterator[tuple[str, str, str, str]]:
    for function in sorted(functions(), key=lambda function: function_text(function.name)):
        example = next((f"{text} = {value}" for text, value in function.examples.items()), "")
        if function.name not in INTERNAL:
            accepts = ", or ".join((function.accepts, *function.also))
            yield function_text(function.name), accepts, function.doc, example
    for table_function in row_functions():
        example = next((f"{text}: {rows or 'no rows'}" for text, rows in table_function.examples.items()), "")
        yield table_function.name, table_function.accepts, table_function.doc, example
    for aggregate in aggregates():
        example = next((f"of {rows}: {value}" for rows, value in aggregate.examples.items()), "")
        yield aggregate.name, aggregate.accepts, aggregate.doc, example


CHANGE_COSTS: Final[dict[type[Maintenance], str]] = {
    Accumulable: "O(change)",
    Invertible: "O(change), state in Python",
    Composite: "as much as its parts, such as sum and count",
    Hierarchical: "O(log group)",
    Basic: "O(group)",
}
"""The cost of a changed row of a group, by how the aggregate is maintained."""

MARKDOWN_HEAD: Final = """# Functions

`kpg functions --markdown` prints this page, and a test compares the two.
`kpg functions TEXT` shows argument types, meaning and examples.
Names are those of Postgres 16, with some of DuckDB. Postgres' names of operators, such as `int4pl`, work too.
"""


def format_functions_page() -> str:
    """Return the names of all functions as the page docs/reference/functions.md."""
    sql_names = {function.name: function_text(function.name) for function in functions()}
    operators = {text.partition("(")[0] for name, text in sql_names.items() if name != text}
    sections = {
        "Operators": sorted(operators),
        "Scalar functions": sorted({name for name, text in sql_names.items() if name == text} - INTERNAL),
        "Set-returning functions": sorted(maker.name for maker in row_functions()),
        "Window functions": sorted(function.name for function in window_functions()),
    }
    page = [MARKDOWN_HEAD]
    for title, names in sections.items():
        page += [f"## {title}", "", "```text", *textwrap.wrap(" ".join(names), 110), "```", ""]
    page += ["## Aggregates", "", "Every aggregate is a window function too.", ""]
    page += ["| a change costs | aggregates |", "| --- | --- |"]
    for maintenance, cost in CHANGE_COSTS.items():
        kinds = (
            aggregate.name for aggregate in aggregates() if isinstance(aggregate.maintenance, maintenance)
        )
        page.append(f"| {cost} | {' '.join(sorted(kinds))} |")
    return "\n".join(page) + "\n"
