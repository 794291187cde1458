"""Names of the catalog are told from names that somebody has written."""

from kpg.compiler.catalog.constraints import ForeignKey
from kpg.compiler.catalog.entries import Catalog, TableEntry, ViewEntry
from kpg.compiler.qualified_names import (
    QualifiedName,
    mark_qualified,
    quote_qualified_name,
    sibling_name,
    unused_name,
)
from kpg.runtime.types import INTEGER, ColumnDef, Schema

SCHEMA = Schema((ColumnDef("a", INTEGER),))


def test_a_resolved_name_is_looked_up_as_it_is() -> None:
    catalog = Catalog(schemas={"public": "public", "far": "far"}, search_path=("far", "public"))
    for name in ("t", "far.t", "u"):
        catalog.add(TableEntry(name, SCHEMA))
    found = [
        catalog.get(name).name for name in ("t", "u", "public.t", QualifiedName("t"), QualifiedName("T"))
    ]
    assert found == ["far.t", "u", "t", "t", "t"]
    assert catalog.get(catalog.get("public.t").name.lower()).name == "t"
    catalog.search_path = ("far",)
    assert catalog.find("u") is None and catalog.find(QualifiedName("u")) is not None


def test_entries_have_resolved_names() -> None:
    view = ViewEntry("v", SCHEMA, None, below="t")
    assert [type(one) for one in (TableEntry("t", SCHEMA).name, view.name, view.below)] == [QualifiedName] * 3


def test_records_of_a_file_are_resolved_in_place() -> None:
    key = ForeignKey("k", ("a",), "t", ("a",))
    assert type(mark_qualified(key, "target", "kept").target) is QualifiedName and type(key.name) is str


def test_a_name_in_the_schema_of_another() -> None:
    assert sibling_name("far.t", "u") == "far.u" and sibling_name("t", "u") == "u"
    assert type(sibling_name("t", "u")) is QualifiedName


def test_a_name_in_a_text() -> None:
    assert [quote_qualified_name(name) for name in ("t", "far.T", 'a"b')] == [
        '"public"."t"',
        '"far"."T"',
        '"public"."a""b"',
    ]


def test_a_name_that_is_taken_gets_a_number() -> None:
    assert unused_name("t", {"u"}.__contains__) == "t"
    assert unused_name("t", {"t", "t (1)", "t (3)"}.__contains__) == "t (2)"
