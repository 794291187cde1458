"""What the catalog is told by the engine: what a session has, and how Postgres writes definitions.

What that takes is loaded when somebody asks.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kpg.compiler.catalog.entries import Catalog, Entry, ViewEntry
    from kpg.engine.engine import Engine
    from kpg.runtime.types import Type


def session_rows(engine: "Engine", what: str) -> Iterable[tuple[int | str | None, ...]]:
    """The rows of a kind of what the session has."""
    from kpg.settings import session_rows as known

    return known.session_rows(engine, what)


class InPostgresWords:
    """Texts of definitions as Postgres writes them."""

    def expression(
        self,
        catalog: "Catalog",
        entry: "Entry | None",
        text: str,
        pretty: bool = False,
        given: "Type | None" = None,
    ) -> str:
        """An expression over a relation's columns; ``given`` is the type of a column whose DEFAULT it is."""
        from kpg.compiler.sql.rewrite.deparse import spelled

        return spelled(catalog, entry, text, pretty, given)

    def type_of(self, catalog: "Catalog", entry: "Entry", text: str) -> "Type | None":
        """The type of an expression, if it is known."""
        from kpg.compiler.sql.rewrite.deparse import type_of

        return type_of(catalog, entry, text)

    def query(self, catalog: "Catalog", text: str) -> str:
        """A query with the schemas of what is not found without, and no others."""
        from kpg.compiler.sql.rewrite.deparse import placed

        return placed(catalog, text)

    def is_computed(self, catalog: "Catalog", view: "ViewEntry", place: int) -> bool:
        """Whether a column of a view is computed, so that its type has neither length nor digits."""
        from kpg.compiler.sql.frontend import is_computed

        return is_computed(catalog, view, place)
