"""The catalog: names, suggestions, operations, and what a name gives access to."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from kpg.compiler.algebra.rel import Distinct, Get, Project
from kpg.compiler.catalog.constraints import Sequence
from kpg.compiler.catalog.entries import (
    KINDS,
    OWNERS,
    RELATIONS,
    SEQUENCES,
    Catalog,
    TableEntry,
    ViewEntry,
    did_you_mean,
    get_node,
)
from kpg.compiler.physical.cardinality import NoStatistics
from kpg.runtime.errors import ProgrammingError
from kpg.runtime.types import INTEGER, ROWID, TEXT, ColumnDef, Schema

ORDERS = TableEntry("Orders", Schema((ColumnDef("k", INTEGER, False), ColumnDef("s", TEXT)), (0,)))
PLAIN = ViewEntry("v", Schema((ColumnDef("s", TEXT),)), Distinct(Project(get_node(ORDERS), (1,))))


def test_names_are_found_in_any_case() -> None:
    catalog = Catalog()
    catalog.add(ORDERS)
    assert catalog.get("ORDERS") is ORDERS and "orders" in catalog
    with pytest.raises(ProgrammingError) as caught:
        catalog.get("order")
    assert caught.value.message == 'relation "order" does not exist'
    assert caught.value.hint == 'did you mean "Orders"?'


def test_a_name_is_taken_unless_a_view_replaces_a_view() -> None:
    catalog = Catalog()
    catalog.add(ORDERS)
    catalog.add(PLAIN)
    for entry in (ORDERS, PLAIN):
        with pytest.raises(ProgrammingError, match="already exists"):
            catalog.add(entry)
    catalog.add(PLAIN, replace=True)
    with pytest.raises(ProgrammingError, match="already exists"):
        catalog.add(ViewEntry("orders", PLAIN.schema, None), replace=True)


def test_a_view_is_no_table() -> None:
    catalog = Catalog()
    catalog.add(PLAIN)
    with pytest.raises(ProgrammingError, match='"v" is a view'):
        catalog.table("V")
    assert catalog.remove("v") is PLAIN and "v" not in catalog


def test_a_copy_changes_on_its_own() -> None:
    catalog = Catalog()
    copy = catalog.copy()
    copy.add(ORDERS)
    assert "orders" in copy and "orders" not in catalog


def test_operations_are_performed_in_their_order() -> None:
    catalog = Catalog()
    before = catalog.entries
    catalog.apply(RELATIONS.put("orders", ORDERS), RELATIONS.put("v", PLAIN), RELATIONS.remove("orders"))
    assert list(catalog) == [PLAIN] and before == {} and catalog.version == 1
    catalog.apply(RELATIONS.remove("nosuch"), SEQUENCES.put("s", Sequence("s")))
    assert list(catalog.sequences) == ["s"] and catalog.version == 2
    catalog.apply()
    assert catalog.version == 2


def test_a_snapshot_is_what_the_catalog_was() -> None:
    catalog = Catalog()
    catalog.add(ORDERS)
    snapshot = catalog.snapshot()
    owners = catalog.privileges.owners
    catalog.apply(RELATIONS.remove("orders"), RELATIONS.put("v", PLAIN), OWNERS.put(("RELATION", "v"), "ann"))
    version = catalog.version
    assert catalog.snapshot() != snapshot
    catalog.restore(snapshot)
    assert list(catalog) == [ORDERS] and catalog.privileges.owners is owners
    assert catalog.snapshot() == snapshot and catalog.version > version


def test_a_copy_shares_what_has_not_changed() -> None:
    catalog = Catalog()
    catalog.add(ORDERS)
    copy = catalog.copy()
    copy.apply(SEQUENCES.put("s", Sequence("s")))
    assert copy.entries is catalog.entries and copy.sequences != catalog.sequences


OBJECTS = frozenset(kind.mapping.rpartition(".")[2] for kind in KINDS) | {
    "functions",
    "privileges",
    "version",
}
"""The attributes of a catalog and its privileges that only operations change."""
HOLDERS = ("catalog", "privileges", "rights")
"""Ends of the names by which code holds a catalog or its privileges."""
MUTATORS = ("clear", "pop", "popitem", "setdefault", "update")


def written(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions that a node assigns to, deletes or calls a mutator of."""
    match node:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            for target in targets:
                yield from target.elts if isinstance(target, ast.Tuple) else (target,)
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            yield target
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in MUTATORS:
            yield value


def is_object_of_catalog(node: ast.expr) -> bool:
    """Whether an expression is an attribute of a catalog with objects, or an element of one."""
    if isinstance(node, ast.Subscript):
        node = node.value
    if not isinstance(node, ast.Attribute) or node.attr not in OBJECTS:
        return False
    holder = node.value
    name = holder.attr if isinstance(holder, ast.Attribute) else getattr(holder, "id", "")
    return name.endswith(HOLDERS)


def test_only_operations_change_a_catalog() -> None:
    """The mappings have no method that changes them, by their type; this finds assignments."""
    root = Path(__file__).parents[3]
    paths = {path.resolve() for folder in ("kpg", "compiler") for path in (root / folder).rglob("*.py")}
    texts = {path: path.read_text() for path in paths if path.parent != root / "compiler" / "catalog"}
    found = [
        f"{path}:{target.lineno}"
        for path, text in texts.items()
        if any(holder in text for holder in HOLDERS)
        for node in ast.walk(ast.parse(text))
        for target in written(node)
        if is_object_of_catalog(target)
    ]
    assert found == []


def test_access_to_a_table_has_the_rowid_and_to_a_view_the_keys_of_its_plan() -> None:
    assert get_node(ORDERS) == Get("Orders", (INTEGER, TEXT, ROWID), (False, True, False), ((0,), (2,)))
    assert get_node(PLAIN) == Get("v", (TEXT,), (True,), ((0,),), is_table=False)


def test_suggestions_and_default_statistics() -> None:
    assert did_you_mean("cusotmer", ["customer", "orders"]) == 'did you mean "customer"?'
    assert did_you_mean("zzz", ["customer"]) is None
    assert NoStatistics().rows("t") == 1000 and NoStatistics().arrangements("t") == ()
