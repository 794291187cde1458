"""Access control: ownership of new objects, the session's role, and row policies.

The compiler checks privileges, from the catalog. An extension, ``kpg.postgres``, changes them and checks
written rows against policies. It registers here. Without it, there is only the bootstrap role.
"""

from collections.abc import Collection
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from kpg.runtime import extensions
from kpg.runtime.errors import NotSupportedError

if TYPE_CHECKING:
    from kpg.compiler.catalog.entries import Catalog, TableEntry
    from kpg.compiler.catalog.privileges import Policy
    from kpg.compiler.sql.parse import definitions as ddl
    from kpg.compiler.sql.parse import statements as ast
    from kpg.execute.changes.table_pipeline import Stage
    from kpg.runtime.errors import Span
    from kpg.session.engine import Engine


class AccessControl(Protocol):
    """The operations of an access control."""

    def track_ownership(
        self,
        engine: "Engine",
        statement: "ast.CreateTable | ast.CreateTableAs | ast.CreateView | ast.Drop | ddl.AnyDefinition",
    ) -> AbstractContextManager[None]:
        """Return a block that checks privileges for a definition and gives its new objects an owner."""

    def set_role(self, engine: "Engine", statement: "ast.SetRole") -> None:
        """Run SET ROLE or SET SESSION AUTHORIZATION."""

    def alter_row_security(
        self, engine: "Engine", entry: "TableEntry", action: "ddl.SetRowSecurity", span: "Span"
    ) -> None:
        """Run ALTER TABLE ... ROW LEVEL SECURITY."""

    def policies_reading(
        self, catalog: "Catalog", relations: Collection[str], column: str = ""
    ) -> "list[Policy]":
        """Return the policies whose conditions read one of the relations, or this column of one."""

    def check_no_dependent_views(self, engine: "Engine", entry: "TableEntry", span: "Span") -> None:
        """Raise NotSupportedError if a maintained view depends on the table's policies."""

    def rename_column_in_policies(
        self, catalog: "Catalog", table: str, old: str, new: str, span: "Span"
    ) -> None:
        """Rename a column of a table in policies; NotSupportedError if one reads it in a subquery."""

    def row_policies(self) -> "Stage":
        """Return the stage of a table's pipeline that checks written rows against policies."""


_installed: list[AccessControl] = []


def install(control: AccessControl) -> None:
    """Register the access control of this process."""
    _installed[:] = [control]


def installed() -> AccessControl:
    """Return the access control; NotSupportedError without one."""
    if not _installed:
        extensions.load_bundled()
    if not _installed:
        raise NotSupportedError(
            "roles and row policies are not available", hint=f"install {extensions.BUNDLED}"
        )
    return _installed[0]
