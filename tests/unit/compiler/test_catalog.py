"""The catalog: names, suggestions, and what a name gives access to."""

import pytest

from kpg.compiler.algebra.rel import Distinct, Get, Project
from kpg.compiler.catalog.entries import Catalog, TableEntry, ViewEntry, did_you_mean, get_node
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


def test_access_to_a_table_has_the_rowid_and_to_a_view_the_keys_of_its_plan() -> None:
    assert get_node(ORDERS) == Get("Orders", (INTEGER, TEXT, ROWID), (False, True, False), ((0,), (2,)))
    assert get_node(PLAIN) == Get("v", (TEXT,), (True,), ((0,),), is_table=False)


def test_suggestions_and_default_statistics() -> None:
    assert did_you_mean("cusotmer", ["customer", "orders"]) == 'did you mean "customer"?'
    assert did_you_mean("zzz", ["customer"]) is None
    assert NoStatistics().rows("t") == 1000 and NoStatistics().arrangements("t") == ()
