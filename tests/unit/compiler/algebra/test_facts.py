"""Unique keys and nullability, operator by operator."""

from kpg.compiler.algebra.facts import (
    Facts,
    at_most_one_row,
    is_unique,
    nullable,
    unique_keys,
)
from kpg.compiler.algebra.rel import (
    AggregateCall,
    Constant,
    Distinct,
    Filter,
    Get,
    Join,
    Let,
    LetRec,
    LocalGet,
    Map,
    Negate,
    Project,
    Reduce,
    Rel,
    Single,
    TopK,
    Union,
)
from kpg.compiler.algebra.scalars import null_rejecting_columns
from kpg.compiler.algebra.traverse import recursions
from kpg.runtime.scalar import Call, Column, If, Literal, Scalar
from kpg.runtime.types import BIGINT, BOOLEAN, INTEGER, ROWID

# customer(key, name, rowid), orders(key, customer, rowid)
CUSTOMER = Get("c", (INTEGER, INTEGER, ROWID), (False, True, False), ((0,), (2,)))
ORDERS = Get("o", (INTEGER, INTEGER, ROWID), (False, True, False), ((0,), (2,)))


def column(index: int) -> Column:
    return Column(index, INTEGER)


def call(function: str, *args: Scalar) -> Call:
    return Call(function, args, BOOLEAN)


def keys(rel: Rel) -> list[set[int]]:
    return [set(key) for key in unique_keys(rel)]


def test_keys_of_a_table_survive_filters_and_projections_that_keep_them() -> None:
    assert keys(CUSTOMER) == [{0}, {2}]
    assert keys(Project(CUSTOMER, (1, 2))) == [{1}]
    assert keys(Project(CUSTOMER, (1,))) == []
    assert keys(Map(CUSTOMER, (column(1),))) == [{0}, {2}]


def test_a_key_equal_to_a_constant_leaves_one_row() -> None:
    assert at_most_one_row(Filter(CUSTOMER, (call("eq", column(0), Literal(5, INTEGER)),)))
    assert not at_most_one_row(Filter(CUSTOMER, (call("eq", column(1), Literal(5, INTEGER)),)))


def test_a_join_on_a_foreign_key_keeps_the_key_of_the_referring_side() -> None:
    join = Join((ORDERS, CUSTOMER), (call("eq", column(1), column(3)),))
    assert {0} in keys(join)
    assert not is_unique(join, [3])


def test_a_product_needs_a_key_of_each_input() -> None:
    product = Join((ORDERS, CUSTOMER), ())
    assert is_unique(product, [0, 3]) and not is_unique(product, [0])


def test_grouping_and_distinct_make_keys() -> None:
    count = AggregateCall("count", (), False, BIGINT)
    assert keys(Reduce(ORDERS, (column(1),), (count,))) == [{0}]
    assert at_most_one_row(Reduce(ORDERS, (), (count,)))
    assert keys(Distinct(Project(ORDERS, (1, 1)))) == [{0, 1}]
    assert keys(TopK(Project(ORDERS, (1,)), (0,), (), 1)) == [{0}]
    assert keys(Single(Project(ORDERS, (1,)), ())) == [set()]


def test_a_difference_is_a_subset_but_a_union_is_not() -> None:
    assert keys(Union((ORDERS, Negate(CUSTOMER)))) == [{0}, {2}]
    assert keys(Union((ORDERS, CUSTOMER))) == []


def test_facts_of_a_let_reach_its_body() -> None:
    local = LocalGet("x", (INTEGER, INTEGER, ROWID))
    assert keys(Let("x", CUSTOMER, local)) == [{0}, {2}]
    assert nullable(Let("x", CUSTOMER, local)) == (False, True, False)
    assert keys(local) == [] and nullable(local) == (True, True, True)


def test_comparisons_reject_nulls() -> None:
    assert nullable(Filter(CUSTOMER, (call("lt", column(1), Literal(3, INTEGER)),))) == (False, False, False)
    assert nullable(Filter(CUSTOMER, (call("is_null", column(1)),))) == (False, True, False)
    either = call("or", call("eq", column(0), column(1)), call("eq", column(1), column(2)))
    assert null_rejecting_columns(either) == {1}
    assert null_rejecting_columns(call("is_not_null", call("add", column(0), column(1)))) == {0, 1}
    some = Call("coalesce", (column(0), column(1)), INTEGER)
    assert null_rejecting_columns(call("eq", some, column(2))) == {2}


def test_what_expressions_and_aggregates_can_be() -> None:
    never = call("is_null", column(1))
    either = If(never, column(0), column(1), INTEGER)
    mapped = Map(CUSTOMER, (never, either, call("coalesce", column(1), column(0)), Literal(None, INTEGER)))
    assert nullable(mapped)[3:] == (False, True, False, True)
    total = AggregateCall("sum", (column(0),), False, BIGINT)
    count = AggregateCall("count", (), False, BIGINT)
    assert nullable(Reduce(CUSTOMER, (), (total, count))) == (True, False)
    assert nullable(Reduce(CUSTOMER, (column(1),), (total,))) == (True, False)
    assert nullable(Constant(((1, None), (2, 3)), (INTEGER, INTEGER))) == (False, True)


def recursion(start: Rel) -> LetRec:
    """r(x, y) := start(x, y) or r(y, y), as a set."""
    r = LocalGet("r", (INTEGER, INTEGER))
    value = Distinct(Union((start, Project(r, (1, 1)))))
    return LetRec(("r",), (value,), ((INTEGER, INTEGER),), None, r)


def test_recursive_relations() -> None:
    rows = Constant(((1, 2),), (INTEGER, INTEGER))
    rec = recursion(rows)
    facts = Facts({}, recursions(rec))
    assert facts.nullable(rec) == (False, False)
    assert facts.unique_keys(rec) == (frozenset({0, 1}),)


def test_nulls_that_later_rounds_move() -> None:
    """The second column is NULL from the start, and gets into the first."""
    rec = recursion(Constant(((1, None),), (INTEGER, INTEGER)))
    assert Facts({}, recursions(rec)).nullable(rec) == (True, True)
    only_first = recursion(Constant(((None, 1),), (INTEGER, INTEGER)))
    assert Facts({}, recursions(only_first)).nullable(only_first) == (True, False)


def test_a_recursion_that_nothing_is_known_of() -> None:
    rec = recursion(Constant(((1, 2),), (INTEGER, INTEGER)))
    assert nullable(rec) == (True, True)
    assert unique_keys(rec) == ()


def test_mutual_recursion_that_adds_up_to_nothing() -> None:
    """Both are empty, for each only has what the other has: no NULL comes of that."""
    a, b = LocalGet("a", (INTEGER,)), LocalGet("b", (INTEGER,))
    rec = LetRec(("a", "b"), (Distinct(b), a), ((INTEGER,), (INTEGER,)), None, b)
    facts = Facts({}, recursions(rec))
    assert facts.nullable(rec) == (False,)
    assert facts.unique_keys(a) == (frozenset({0}),)
    assert facts.unique_keys(b) == ()
