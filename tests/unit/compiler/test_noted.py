"""Dicts that know whether they have changed."""

from collections.abc import Callable

import pytest

from kpg.compiler.catalog.cache import MUTATORS, VersionedDict
from kpg.compiler.catalog.entries import Catalog
from kpg.compiler.catalog.privileges import Privileges

CHANGES: dict[str, Callable[[VersionedDict[str, int]], object]] = {
    "__setitem__": lambda one: one.__setitem__("a", 2),
    "__delitem__": lambda one: one.__delitem__("a"),
    "__ior__": lambda one: one.__ior__({"b": 1}),
    "clear": lambda one: one.clear(),
    "pop": lambda one: one.pop("a"),
    "popitem": lambda one: one.popitem(),
    "setdefault": lambda one: one.setdefault("b", 1),
    "update": lambda one: one.update({"b": 1}, c=2),
}


def test_every_method_that_changes_a_dict_is_known() -> None:
    reading = {
        "__class_getitem__", "__contains__", "__eq__", "__ge__", "__getattribute__", "__getitem__", "__gt__",
        "__init__", "__iter__", "__le__", "__len__", "__lt__", "__ne__", "__new__", "__or__", "__repr__",
        "__reversed__", "__ror__", "__sizeof__", "copy", "fromkeys", "get", "items", "keys", "values",
        "__doc__", "__hash__",
    }  # fmt: skip
    assert set(vars(dict)) - reading == set(MUTATORS) == set(CHANGES)


@pytest.mark.parametrize("name", MUTATORS)
def test_changes_are_noted(name: str) -> None:
    one: VersionedDict[str, int] = VersionedDict({"a": 1})
    plain = {"a": 1}
    before = one.version
    CHANGES[name](one)
    CHANGES[name](plain)  # type: ignore[arg-type]
    assert one.version != before and one == plain


def test_reading_is_none_and_each_has_a_version_of_its_own() -> None:
    one: VersionedDict[str, int] = VersionedDict({"a": 1})
    before = one.version
    assert (one["a"], one.get("b"), list(one), "a" in one, dict(one)) == (1, None, ["a"], True, {"a": 1})
    assert one.version == before != VersionedDict(one).version


def test_what_a_catalog_knows_stays_noted() -> None:
    """After a rollback, too, which has it be another's."""
    catalog = Catalog()
    other = catalog.copy()
    catalog.copy_from(other)
    catalog.privileges.copy_from(Privileges())
    for one in (
        catalog.sequences,
        catalog.comments,
        catalog.indexes,
        catalog.privileges.owners,
        catalog.privileges.acls,
    ):
        assert isinstance(one, VersionedDict)
