"""Texts to trees, and what is wrong with texts."""

from typing import Any

import pytest

from kpg.compiler.datalog.diagnostics import Diagnostics
from kpg.compiler.datalog.parser import parse
from kpg.compiler.datalog.preprocessor import File, Piece, Source
from kpg.compiler.datalog.syntax import ast
from kpg.compiler.datalog.syntax.ast import Attribute, Branch, ComponentRef, TypeRef
from kpg.runtime.errors import Span

NOWHERE = Span("", 0, 0)


def nowhere(node: Any) -> Any:
    """Makes nodes whose place does not matter."""
    return lambda *parts: node(*parts, NOWHERE)


AdtType = nowhere(ast.AdtType)
Aggregate = nowhere(ast.Aggregate)
And = nowhere(ast.And)
Atom = nowhere(ast.Atom)
Call = nowhere(ast.Call)
Cast = nowhere(ast.Cast)
Clause = nowhere(ast.Clause)
Comparison = nowhere(ast.Comparison)
Component = nowhere(ast.Component)
Declaration = nowhere(ast.Declaration)
Directive = nowhere(ast.Directive)
Dollar = nowhere(ast.Dollar)
Float = nowhere(ast.Float)
Goal = nowhere(ast.Goal)
Init = nowhere(ast.Init)
Integer = nowhere(ast.Integer)
Name = nowhere(ast.Name)
Nil = nowhere(ast.Nil)
Not = nowhere(ast.Not)
Or = nowhere(ast.Or)
Override = nowhere(ast.Override)
Plan = nowhere(ast.Plan)
Pragma = nowhere(ast.Pragma)
Query = nowhere(ast.Query)
Record = nowhere(ast.Record)
RecordType = nowhere(ast.RecordType)
String = nowhere(ast.String)
Subtype = nowhere(ast.Subtype)
Truth = nowhere(ast.Truth)
Underscore = nowhere(ast.Underscore)
UnionType = nowhere(ast.UnionType)
Update = nowhere(ast.Update)
Variable = nowhere(ast.Variable)

x, y, z = Variable("x"), Variable("y"), Variable("z")


def one(number: int) -> ast.Integer:
    return Integer(number, False)


def read(text: str) -> tuple[tuple[ast.Statement, ...], Diagnostics]:
    diagnostics = Diagnostics()
    source = Source(text, [Piece(0, File("", text), 0, len(text))])
    return parse(source, diagnostics).statements, diagnostics


def statement(text: str) -> ast.Statement:
    (found,), diagnostics = read(text)
    assert diagnostics.entries == []
    return found


def atom(name: str, *args: ast.Expression) -> ast.Atom:
    return Atom(Name(name), args)


def attribute(name: str, type_: str) -> Attribute:
    return Attribute(Name(name), TypeRef(Name(type_)))


def expression(text: str) -> ast.Expression:
    found = statement(f"p(x) :- x = {text}.")
    assert isinstance(found, ast.Clause) and isinstance(found.body, ast.Comparison)
    return found.body.right


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("p(1, x).", Clause((atom("p", one(1), x),), None, None)),
        ("p().", Clause((atom("p"),), None, None)),
        ("c.in.p(x) :- q(x).", Clause((atom("c.in.p", x),), atom("q", x), None)),
        ("p(x), q(y) :- r(x, y).", Clause((atom("p", x), atom("q", y)), atom("r", x, y), None)),
        (
            "p(x) :- a(x), !b(x) ; x != 3, (c(x) ; true).",
            Clause(
                (atom("p", x),),
                Or(
                    (
                        And((atom("a", x), Not(atom("b", x)))),
                        And((Comparison("!=", x, one(3)), Or((atom("c", x), Truth(True))))),
                    )
                ),
                None,
            ),
        ),
        (
            "p(x) :- a(x), b(x). .plan 0:(2, 1), 1:(1, 2)",
            Clause((atom("p", x),), And((atom("a", x), atom("b", x))), Plan(((0, (2, 1)), (1, (1, 2))))),
        ),
        ("p(x) :- a(x). .plan (1)", Clause((atom("p", x),), atom("a", x), Plan(((0, (1,)),)))),
        ("max(x) :- min(x).", Clause((atom("max", x),), atom("min", x), None)),
        ("p(min(x)) :- q(x).", Clause((atom("p", Call("min", (x,))),), atom("q", x), None)),
        (
            ".decl p, q(x: number, y: T.A) inline magic",
            Declaration(
                (Name("p"), Name("q")),
                (attribute("x", "number"), attribute("y", "T.A")),
                (Name("inline"), Name("magic")),
            ),
        ),
        (
            ".decl p(count: decimal(15, 2))",
            Declaration((Name("p"),), (Attribute(Name("count"), TypeRef(Name("decimal"), (15, 2))),), ()),
        ),
        (".type A <: number", Subtype(Name("A"), TypeRef(Name("number")))),
        (".type A = B | c.D", UnionType(Name("A"), (TypeRef(Name("B")), TypeRef(Name("c.D"))))),
        (".type A = [x: A]", RecordType(Name("A"), (attribute("x", "A"),))),
        (
            ".type A = N { x: A } | Z {}",
            AdtType(Name("A"), (Branch(Name("N"), (attribute("x", "A"),)), Branch(Name("Z"), ()))),
        ),
        (
            '.input p, c.q(IO="file", headers=true, n=3)',
            Directive("input", (Name("p"), Name("c.q")), (("IO", "file"), ("headers", "true"), ("n", "3"))),
        ),
        (".output p", Directive("output", (Name("p"),), ())),
        (
            ".comp A<T> : B<T>, C { .decl p(x: T) p(1). .override q }",
            Component(
                Name("A"),
                (Name("T"),),
                (ComponentRef(Name("B"), (Name("T"),)), ComponentRef(Name("C"), ())),
                (
                    Declaration((Name("p"),), (attribute("x", "T"),), ()),
                    Clause((atom("p", one(1)),), None, None),
                    Override(Name("q")),
                ),
            ),
        ),
        (".init a = A<number>", Init(Name("a"), ComponentRef(Name("A"), (Name("number"),)))),
        ('.pragma "a" "b"', Pragma("a", "b")),
        ('.pragma "a"', Pragma("a", "")),
        (
            "?- p($a, _), x < 3.",
            Goal(And((atom("p", Dollar("a", None), Underscore()), Comparison("<", x, one(3))))),
        ),
        (".query p(b, f).", Query(Name("p"), (Name("b"), Name("f")))),
        ("+p(1).", Update(1, atom("p", one(1)))),
        ("-p(1).", Update(-1, atom("p", one(1)))),
    ],
)
def test_statement(text: str, tree: ast.Statement) -> None:
    assert statement(text) == tree


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("0x1F", one(31)),
        ("0b101u", Integer(5, True)),
        ("1.5e-3", Float(0.0015)),
        ('"a\\"\\n\\\\"', String('a"\n\\')),
        ("nil", Nil()),
        ("[]", Record(())),
        ("[x, [_, nil]]", Record((x, Record((Underscore(), Nil()))))),
        ("$N", Dollar("N", None)),
        ("$c.N(x)", Dollar("c.N", (x,))),
        ("f(x, g())", Call("f", (x, Call("g", ())))),
        ("as(x, c.T)", Cast(x, Name("c.T"))),
        ("1 + 2 * 3", Call("+", (one(1), Call("*", (one(2), one(3)))))),
        ("1 - 2 - 3", Call("-", (Call("-", (one(1), one(2))), one(3)))),
        ("2 ^ 3 ^ -1", Call("^", (one(2), Call("^", (one(3), Call("neg", (one(1),))))))),
        ("-x ^ 2", Call("neg", (Call("^", (x, one(2))),))),
        ("(1 + 2) * 3", Call("*", (Call("+", (one(1), one(2))), one(3)))),
        (
            "x bor y band z bshl 1 + 2",
            Call(
                "bor",
                (x, Call("band", (y, Call("bshl", (z, Call("+", (one(1), one(2)))))))),
            ),
        ),
        ("bnot x bxor lnot y", Call("bxor", (Call("bnot", (x,)), Call("lnot", (y,))))),
        ("min(x, y) + 1", Call("+", (Call("min", (x, y)), one(1)))),
        ("count : { p(x) }", Aggregate("count", None, atom("p", x))),
        ("count : p(_) + 1", Call("+", (Aggregate("count", None, atom("p", Underscore())), one(1)))),
        (
            "sum x * 2 : { p(x), x > 1 }",
            Aggregate("sum", Call("*", (x, one(2))), And((atom("p", x), Comparison(">", x, one(1))))),
        ),
        ("max (x) : p(x)", Aggregate("max", x, atom("p", x))),
        ("minimum", Variable("minimum")),
        ("?x", Variable("?x")),
        ("_x", Variable("_x")),
    ],
)
def test_expression(text: str, tree: ast.Expression) -> None:
    assert expression(text) == tree


def test_statements_need_no_space_between_them() -> None:
    statements, diagnostics = read("p(x):-x=y.q(x):-x=y.p(1).")
    assert len(statements) == 3 and diagnostics.entries == []


def test_a_qualifier_is_no_keyword_before_a_parenthesis() -> None:
    statements, _ = read(".decl p(x: number) inline\nmagic(x) :- p(x).\ninput(1).")
    assert [type(found) for found in statements] == [ast.Declaration, ast.Clause, ast.Clause]


def test_spans() -> None:
    found = statement("p(x) :- q(x, 12).")
    assert isinstance(found, ast.Clause) and isinstance(found.body, ast.Atom)
    text = found.span.source
    assert text[found.span.start : found.span.end] == "p(x) :- q(x, 12)."
    assert text[found.body.span.start : found.body.span.end] == "q(x, 12)"
    assert text[found.body.args[1].span.start : found.body.args[1].span.end] == "12"
    assert text[found.body.name.span.start : found.body.name.span.end] == "q"


def test_every_syntax_error_is_found_and_the_rest_is_kept() -> None:
    text = (
        "p(1). p(2\np(3). q(x) :- , p(x). good(1).\n"
        ".comp C { p(x) :- q(x) r(x). inside(1). }\n"
        ".decl broken(x number)\n.decl fine(x: number)\nx = 3. last(1)."
    )
    statements, diagnostics = read(text)
    assert [found.message for found in diagnostics.entries] == [
        'syntax error at "p"',
        'syntax error at ","',
        'syntax error at "r"',
        'syntax error at "number"',
        'syntax error at "="',
    ]
    assert [found.span.line for found in diagnostics.entries if found.span] == [2, 2, 3, 4, 6]
    kept = [found for found in statements if isinstance(found, ast.Clause)]
    assert [found.heads[0].name.text for found in kept] == ["p", "good", "last"]
    (component,) = (found for found in statements if isinstance(found, ast.Component))
    assert len(component.statements) == 1


def test_a_hint_says_what_was_expected() -> None:
    _, diagnostics = read("p(1) p(2).")
    assert diagnostics.entries[0].hint == 'expected "," or "." or ":-" or "<="'


def test_annotations_say_nothing() -> None:
    text = """@![file = "a.dl"]
@[doc = "an edge ]", since(2)]
.decl edge(from: number, @[unit([m])] to: number)
@[rule] edge(1, 2).
"""
    statements, diagnostics = read(text)
    assert not diagnostics.entries
    declaration, fact = statements
    assert isinstance(declaration, ast.Declaration)
    assert isinstance(fact, ast.Clause)
    assert [one.name.text for one in declaration.attributes] == ["from", "to"]
