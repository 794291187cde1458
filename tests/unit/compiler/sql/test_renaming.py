"""Texts of definitions with other names in the place of some: nothing else of the text changes."""

import pytest

from kpg.compiler.sql.rewrite.deparse import FUNCTION, RELATION, SEQUENCE, TYPE, rename_references

NAMES = {
    (RELATION, "u"): "far.w",
    (RELATION, "far.w"): "far.x",
    (RELATION, "old.t"): "new.t",
    (SEQUENCE, "s"): "near.S2",
    (TYPE, "mood"): "moods",
    (FUNCTION, "far.f"): "far.g",
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("far.f('a'::public.mood)", "far.g('a'::public.moods)"),
        ('"far".f(1) + f(2)', "far.g(1) + f(2)"),
        ("CAST(x AS public.mood[])", "CAST(x AS public.moods[])"),
        ("nextval('public.s')", "nextval('near.\"S2\"')"),
        ("'public.s' || nextval('s')", "'public.s' || nextval('near.\"S2\"')"),
        ("'public.u'::regclass", "'far.w'::regclass"),
        ("exists (select 1 from public.u)", "exists (select 1 from far.w)"),
        ("exists (select u.a from public.u)", "exists (select u.a from far.w AS u)"),
        ("exists (select public.u.a from public.u)", "exists (select u.a from far.w AS u)"),
        ("exists (select x.u from public.u as x)", "exists (select x.u from far.w as x)"),
        ("exists (select t.a from old.t)", "exists (select t.a from new.t)"),
        ("exists (with u as (select 1) select * from u)", "exists (with u as (select 1) select * from u)"),
        ("UPDATE public.u SET a = 1 WHERE u.a = 2", "UPDATE far.w AS u SET a = 1 WHERE u.a = 2"),
        ("INSERT INTO public.u (a) SELECT new.a", "INSERT INTO far.w (a) SELECT new.a"),
        ("SELECT * FROM far.f(1) g, far.w", "SELECT * FROM far.g(1) g, far.x"),
        ("u > 'mood'", "u > 'mood'"),
        ("x > far.u", "x > far.u"),
    ],
)
def test_what_is_named_has_its_other_name(text: str, expected: str) -> None:
    assert rename_references(text, NAMES) == expected
