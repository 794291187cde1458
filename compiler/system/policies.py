"""What Postgres' catalogs have of row level security."""

from collections.abc import Iterator

from kpg.compiler.catalog import Catalog
from kpg.compiler.security import EVERYBODY, Policy
from kpg.compiler.system.naming import number_of, role_number, split
from kpg.compiler.system.relations import Row, System, columns

LETTERS = {"ALL": "*", "SELECT": "r", "INSERT": "a", "UPDATE": "w", "DELETE": "d"}


def _all(catalog: Catalog) -> list[Policy]:
    return [one for one in catalog.others.values() if isinstance(one, Policy)]


def _policies(catalog: Catalog) -> Iterator[Row]:
    for one in _all(catalog):
        numbers = number_of("policy", f"{one.table}.{one.name}"), number_of("relation", one.table)
        roles = " ".join("0" if role == EVERYBODY else str(role_number(role)) for role in one.roles)
        kind = LETTERS[one.command], int(one.permissive)
        yield numbers[0], one.name, numbers[1], *kind, roles, *_conditions(catalog, one)


def _conditions(catalog: Catalog, one: Policy) -> tuple[str | None, str | None]:
    """USING and WITH CHECK."""
    spell, entry = catalog.consulted.spelling.expression, catalog.get(one.table)
    using, check = (spell(catalog, entry, text) if text else None for text in (one.using, one.check))
    return using, check


def _shown(catalog: Catalog) -> Iterator[Row]:
    for one in _all(catalog):
        schema, table = split(catalog, one.table)
        kind = "PERMISSIVE" if one.permissive else "RESTRICTIVE"
        roles = "{" + ",".join(one.roles) + "}"
        yield schema, table, one.name, kind, roles, one.command, *_conditions(catalog, one)


POSTGRES = {
    "pg_policy": System(
        columns("oid:o polname polrelid:o polcmd polpermissive:b polroles:n polqual polwithcheck"), _policies
    ),
    "pg_policies": System(
        columns("schemaname tablename policyname permissive roles:t cmd qual with_check"), _shown
    ),
}
