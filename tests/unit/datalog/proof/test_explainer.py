"""Proofs of rows: what they are made of, how they read, and where they are refused."""

import json
import math

import networkx
import pytest
from rich.console import Console

import kpg
from kpg.api.database import Database
from kpg.cli.datalog_prompt import DatalogPrompt
from kpg.cli.output import Format
from kpg.datalog import Program, Proof
from kpg.datalog.proof import Kind
from kpg.runtime.errors import InterfaceError, NotSupportedError, OperationalError, ProgrammingError

CLOSURE = """
.decl edge(a: number, b: number)
edge(1, 2). edge(2, 3). edge(3, 4). edge(4, 2). edge(4, 9).
.decl tc(a: number, b: number)
tc(x, y) :- edge(x, y).
tc(x, z) :- tc(x, y), edge(y, z).
"""
PLAIN = """\
tc(1, 9)  <- tc(x, z) :- tc(x, y), edge(y, z).  [line 6]
├─ tc(1, 4)  <- tc(x, z) :- tc(x, y), edge(y, z).  [line 6]
│  ├─ tc(1, 3)  <- tc(x, z) :- tc(x, y), edge(y, z).  [line 6]
│  │  ├─ tc(1, 2)  <- tc(x, y) :- edge(x, y).  [line 5]
│  │  │  └─ edge(1, 2)  (fact)
│  │  └─ edge(2, 3)  (fact)
│  └─ edge(3, 4)  (fact)
└─ edge(4, 9)  (fact)"""


def prove(text: str, relation: str, *row: object) -> Proof:
    db = kpg.connect()
    db.datalog(text)
    return db.explain_row(relation, row)


def test_a_closure() -> None:
    proof = prove(CLOSURE, "tc", 1, 9)
    assert str(proof) == repr(proof) == PLAIN
    assert (proof.kind, proof.relation, proof.row, proof.text) == (Kind.RULE, "tc", (1, 9), "tc(1, 9)")
    assert (proof.size, proof.height) == (8, 4)
    assert proof.rule is not None and proof.rule.text == "tc(x, z) :- tc(x, y), edge(y, z)."
    assert proof.rule.span.line == 6
    leaf = proof.children[1]
    assert (leaf.kind, leaf.row, leaf.rule, leaf.children, leaf.height) == (Kind.FACT, (4, 9), None, (), 0)


def test_rules_of_files_have_their_place() -> None:
    db = kpg.connect()
    db.datalog(CLOSURE, filename="graph.dl")
    proof = db.explain_row("tc", (1, 2))
    assert proof.rule is not None and proof.rule.place == "graph.dl:5"


def test_plain_data_and_json() -> None:
    proof = prove(CLOSURE, "tc", 2, 4)
    rule = {"rule": "tc(x, z) :- tc(x, y), edge(y, z).", "place": "line 6"}
    assert proof.to_dict() == {
        "nodes": [
            {"kind": "rule", "text": "tc(2, 4)", "relation": "tc", "row": [2, 4], **rule, "children": [1, 3]},
            {
                "kind": "rule",
                "text": "tc(2, 3)",
                "relation": "tc",
                "row": [2, 3],
                "rule": "tc(x, y) :- edge(x, y).",
                "place": "line 5",
                "children": [2],
            },
            {"kind": "fact", "text": "edge(2, 3)", "relation": "edge", "row": [2, 3]},
            {"kind": "fact", "text": "edge(3, 4)", "relation": "edge", "row": [3, 4]},
        ]
    }
    assert json.loads(proof.to_json()) == proof.to_dict()


SHARED = """
.decl f(n: number, v: number)
f(0, 0). f(1, 1).
f(n + 1, v + w) :- f(n, v), f(n - 1, w), n < 30.
"""


def test_what_is_shared_is_shown_once() -> None:
    proof = prove(SHARED, "f", 4, 3)
    assert [line.strip("│├└─ ") for line in str(proof).splitlines()].count("f(2, 1)  (shown above)") == 1
    whole = prove(SHARED, "f", 30, 832040)
    assert whole.height == 29 and whole.size < 150
    assert len({id(node) for node in whole.nodes()}) == whole.size


def test_depth_and_lines_are_limited() -> None:
    db = kpg.connect()
    db.datalog(CLOSURE.replace("tc(x, y) :-", "tc(x, y) :- x = 100,"))
    db.insert("edge", [(i, i + 1) for i in range(100, 1300)])
    proof = db.explain_row("tc", (100, 1300))
    assert (proof.height, proof.size) == (1200, 2400)
    assert "tc(100, 1288)  … 2375 nodes below" in str(proof)
    assert len(proof.tree(depth=None, lines=50).splitlines()) == 51
    assert proof.tree(depth=None, lines=50).endswith(
        "… the proof has 2400 nodes: tree(depth=None, lines=None) shows all of them"
    )
    assert len(proof.tree(depth=None, lines=None).splitlines()) == 2400
    assert len(proof.to_dict()["nodes"]) == 2400


def test_notebook_and_rich() -> None:
    proof = prove('.decl p(s: symbol)\np("<b>").\n.decl q(s: symbol)\nq(x) :- p(x), x != "c".', "q", "<b>")
    assert proof._repr_html_() == (
        "<ul><li><details open><summary><code>q(&quot;&lt;b&gt;&quot;)</code>  "
        "<small>&lt;- q(x) :- p(x), x != &quot;c&quot;.  [line 4]</small></summary><ul>"
        "<li><code>p(&quot;&lt;b&gt;&quot;)</code> (fact) <small></small></li>"
        "<li><code>&quot;&lt;b&gt;&quot; != &quot;c&quot;</code>  <small></small></li>"
        "</ul></details></li></ul>"
    )
    console = Console(width=200, color_system=None)
    with console.capture() as captured:
        console.print(prove(CLOSURE, "tc", 1, 9))
    lines = captured.get().splitlines()
    assert lines[0] == PLAIN.splitlines()[0] and lines[-1] == "└── edge(4, 9)  (fact)" and len(lines) == 8


def leaves(proof: Proof) -> list[str]:
    return [child.text for child in proof.children]


def test_negation_constraints_and_functors() -> None:
    text = """
    .decl e(a: number, b: number)
    e(1, 2). e(2, 3).
    .decl p(a: number, s: symbol)
    p(x, s) :- e(_, x), !e(x, _), n = x * 2 + 1, n < 100, s = cat("n", to_string(n)).
    """
    assert leaves(prove(text, "p", 3, "n7")) == [
        "e(2, 3)",
        "!e(3, _)",
        "7 = (3 * 2) + 1",
        "7 < 100",
        '"n7" = cat("n", to_string(7))',
    ]


def test_an_aggregate_in_a_body() -> None:
    text = """
    .decl e(a: number, b: number)
    e(1, 2). e(1, 3). e(1, 4). e(1, 5). e(2, 9).
    .decl p(a: number, n: number)
    p(x, n) :- e(x, _), n = count : { e(x, _) }.
    .decl least(a: number)
    least(m) :- m = min y : { e(_, y) }.
    .decl none(n: number)
    none(n) :- n = sum y : { e(7, y) }.
    """
    proof = prove(text, "p", 1, 4)
    (edge, total) = proof.children
    assert (edge.text, total.text, total.kind, total.count) == (
        "e(1, 2)",
        "4 = count : { e(x, _) }",
        Kind.AGGREGATE,
        4,
    )
    assert leaves(total) == ["e(1, 2)", "e(1, 3)", "e(1, 4)"] and total.children[0] is edge
    assert str(proof).splitlines()[2] == "└─ 4 = count : { e(x, _) }  (over 4 values, such as)"
    (least,) = prove(text, "least", 2).children
    assert least.count == 5 and leaves(least)[0] == "e(1, 2)"
    (nothing,) = prove(text, "none", 0).children
    assert (nothing.count, nothing.children) == (0, ())


def test_an_aggregate_in_a_head() -> None:
    text = """
    .decl e(a: number, b: number)
    e(1, 2). e(1, 3). e(1, 4). e(1, 5). e(2, 9).
    .decl fan(a: number, n: number, total: number)
    fan(x, count(y), sum(y)) :- e(x, y).
    fan(x, count(x), sum(100)) :- e(_, x).
    """
    proof = prove(text, "fan", 2, 2, 109)
    assert (proof.kind, proof.count) == (Kind.AGGREGATE, 2)
    assert leaves(proof) == ["fan(2, count, sum(9))", "fan(2, count, sum(100))"]
    assert [child.kind for child in proof.children] == [Kind.CONTRIBUTION] * 2
    assert [leaves(child) for child in proof.children] == [["e(2, 9)"], ["e(1, 2)"]]


def test_a_minimum_in_recursion() -> None:
    text = """
    .decl e(a: number, b: number, w: number)
    e(1, 2, 9). e(1, 3, 2). e(3, 2, 3). e(2, 1, 0).
    .decl d(a: number, w: number)
    d(x, min(0)) :- e(x, 3, _).
    d(y, min(v + w)) :- d(x, v), e(x, y, w).
    """
    proof = prove(text, "d", 2, 5)
    assert leaves(proof) == ["d(3, 2)", "e(3, 2, 3)", "5 = 2 + 3"]
    assert not any(node.superseded for node in proof.nodes())


def test_values_replaced_since_are_used_where_nothing_else_is_there() -> None:
    text = """
    .decl start(a: number, v: number)
    start(1, 12).
    .decl link(a: number, b: number)
    link(1, 2). link(2, 1).
    .decl d(a: number, v: number)
    d(x, min(v)) :- start(x, v).
    d(y, min(w)) :- d(x, v), link(x, y), w = min(v, 10).
    """
    proof = prove(text, "d", 2, 10)
    (first, *_) = proof.children
    assert (first.text, first.superseded, first.children[0].text) == ("d(1, 12)", True, "start(1, 12)")
    assert "d(1, 12)  (replaced since)  <-" in str(proof)
    assert prove(text, "d", 1, 10).children[0].text == "d(2, 10)"


def test_rows_that_a_minimum_took_back() -> None:
    text = """
    .decl start(a: number, v: number)
    start(1, 12).
    .decl link(a: number, b: number)
    link(1, 2). link(2, 1).
    .decl d(a: number, v: number)
    d(x, min(v)) :- start(x, v).
    d(y, min(w)) :- val(x, v), link(x, y), w = min(v, 10).
    .decl val(a: number, v: number)
    val(x, v) :- d(x, v).
    """
    (value, link, least) = prove(text, "d", 2, 10).children
    assert (value.text, value.superseded, link.text, least.text) == (
        "val(1, 12)",
        True,
        "link(1, 2)",
        "10 = min(12, 10)",
    )
    assert [(one.text, one.superseded) for one in value.children] == [("d(1, 12)", True)]
    with pytest.raises(ProgrammingError, match=r"val\(1, 12\) does not hold"):
        prove(text, "val", 1, 12)


def test_records_terms_and_ranges() -> None:
    text = """
    .type List = [head: number, tail: List]
    .type Tree = Leaf {} | Node { left: Tree, value: number }
    .decl l(x: List)
    l(nil).
    l([n, x]) :- l(x), n = range(1, 3), x = nil.
    .decl first(n: number)
    first(n) :- l([n, _]).
    .decl t(x: Tree)
    t($Node($Leaf, 4)).
    .decl value(n: number)
    value(n) :- t(e), e = $Node(_, n).
    """
    assert leaves(prove(text, "l", "[2, nil]")) == ["l(nil)", "2 = range(1, 3)"]
    assert leaves(prove(text, "first", 2)) == ["l([2, nil])", "n = 2"]
    assert leaves(prove(text, "value", 4)) == ["t($Node($Leaf, 4))", "e = $Node(_, n)", "n = 4"]


def test_inline_relations_several_heads_disjunctions_and_components() -> None:
    text = """
    .decl e(a: number, b: number)
    e(1, 2). e(2, 3).
    .decl both(a: number, b: number) inline
    both(x, z) :- e(x, y), e(y, z).
    .comp C { .decl p(a: number)
              .decl q(a: number)
              p(x), q(x) :- both(x, _) ; e(_, x), x > 2. }
    .init c = C
    """
    assert leaves(prove(text, "c.p", 1)) == ["e(1, 2)", "e(2, 3)"]
    proof = prove(text, "c.q", 3)
    assert leaves(proof) == ["e(2, 3)", "3 > 2"]
    assert proof.rule is not None and proof.rule.text == "p(x), q(x) :- both(x, _) ; e(_, x), x > 2."


def test_equivalence_relations() -> None:
    text = ".decl same(a: number, b: number) eqrel\nsame(1, 2). same(3, 2)."
    proof = prove(text, "same", 1, 3)
    assert proof.rule is not None and proof.rule.text == "same(x, z) :- same(x, y), same(y, z)."
    facts = {node.text for node in proof.nodes() if node.kind is Kind.FACT}
    assert facts == {"same(1, 2)", "same(3, 2)"}


def test_relations_without_columns() -> None:
    text = ".decl e(a: number)\ne(1).\n.decl some()\nsome() :- e(_).\n.decl other()\nother() :- some()."
    assert str(prove(text, "other")).splitlines()[1:] == [
        "└─ some()  <- some() :- e(_).  [line 4]",
        "   └─ e(1)  (fact)",
    ]


def test_facts_of_relations_with_rules_and_facts_alone() -> None:
    text = ".decl p(a: number)\np(1).\np(y) :- p(x), y = x + 1, y < 4."
    assert prove(text, "p", 1).kind is Kind.FACT
    assert [node.text for node in prove(text, "p", 3).nodes() if node.row] == ["p(3)", "p(2)", "p(1)"]
    assert str(prove(CLOSURE, "edge", 1, 2)) == "edge(1, 2)  (fact)"


def test_tables_and_views_of_the_database() -> None:
    db = kpg.connect()
    db.sql("CREATE TABLE person (name TEXT PRIMARY KEY, boss TEXT, pay DECIMAL(8, 2))")
    db.sql("INSERT INTO person VALUES ('Ada', NULL, 9.5), ('Ben', 'Ada', 7.25), ('Cyd', 'Ben', 1)")
    db.sql("CREATE VIEW poor AS SELECT name FROM person WHERE pay < 8")
    db.sql("CREATE MATERIALIZED VIEW rich AS SELECT name FROM person WHERE pay > 8")
    db.datalog("""
    .decl under(name: symbol, boss: symbol)
    under(x, y) :- person(x, y, _).
    under(x, z) :- under(x, y), person(y, z, _).
    .decl sad(name: symbol)
    sad(x) :- poor(x), under(x, y), rich(y).
    """)
    assert leaves(db.explain_row("sad", ("Cyd",))) == ['poor("Cyd")', 'under("Cyd", "Ada")', 'rich("Ada")']
    proof = db.explain_row("under", ("Cyd", "Ada"))
    (_, row) = proof.children
    assert (row.kind, row.text) == (Kind.EXTERNAL, 'person("Ben", "Ada", 7.25)')
    with pytest.raises(ProgrammingError, match='"person" is no relation of a Datalog program'):
        db.explain_row("person", ("Ada", None, 9.5))


def test_proofs_have_the_least_height() -> None:
    graph = networkx.gnm_random_graph(40, 90, seed=3, directed=True)
    for rule in ("tc(x, y), edge(y, z)", "edge(x, y), tc(y, z)", "tc(x, y), tc(y, z)"):
        db = kpg.connect()
        db.datalog(f"""
        .decl edge(a: number, b: number)
        .decl tc(a: number, b: number)
        tc(x, y) :- edge(x, y).
        tc(x, z) :- {rule}.
        """)
        db.insert("edge", list(graph.edges))
        for source, distances in list(networkx.all_pairs_shortest_path_length(graph))[:12]:
            for target, distance in list(distances.items())[:12]:
                if distance:
                    squared = "tc(y" in rule and "tc(x" in rule
                    least = 1 + math.ceil(math.log2(distance)) if squared else distance
                    assert db.explain_row("tc", (source, target)).height == least


def installed(text: str) -> tuple[Database, Program]:
    db = kpg.connect()
    return db, db.datalog(text)


def test_the_committed_state_counts() -> None:
    db, program = installed(CLOSURE)
    program["tc"]
    assert db.explain_row("tc", (1, 9)).height == 4
    db.insert("edge", [(2, 9)])
    assert db.explain_row("tc", (1, 9)).height == 2
    with db.transaction():
        db.delete("edge", [(2, 9), (1, 2)])
        db.insert("edge", [(1, 9)])
        assert leaves(db.explain_row("tc", (1, 9))) == ["tc(1, 2)", "edge(2, 9)"]
        assert str(db.explain_row("edge", (1, 2))) == "edge(1, 2)  (fact)"
        with pytest.raises(ProgrammingError, match=r"edge\(1, 9\) does not hold"):
            db.explain_row("edge", (1, 9))
    assert leaves(db.explain_row("tc", (1, 9))) == ["edge(1, 9)"]
    program.update("-edge(1, 9). +edge(1, 2).")
    assert db.explain_row("tc", (1, 9)).height == 4


def test_programs_that_grow() -> None:
    db, program = installed(CLOSURE)
    assert db.explain_row("tc", (1, 9)).height == 4
    program.extend("tc(x, x) :- edge(x, _).")
    assert leaves(db.explain_row("tc", (2, 2))) == ["edge(2, 3)"]


def test_relations_that_nobody_maintains_are_not_maintained_for_it() -> None:
    text = """
    .decl e(a: number, b: number)
    e(1, 2). e(2, 3). e(3, 4).
    .decl two(a: number, b: number)
    two(x, z) :- e(x, y), e(y, z).
    .decl fan(a: number, n: number)
    fan(x, count(y)) :- two(x, y).
    .decl last(a: number)
    last(x) :- two(_, x), !two(x, _), fan(1, n), n = 1.
    """
    db, program = installed(text)
    assert leaves(db.explain_row("last", (3,))) == ["two(1, 3)", "fan(1, 1)", "!two(3, _)"]
    assert program.installation.materialized == frozenset()
    with db.transaction():
        db.insert("e", [(3, 5)])
        assert leaves(db.explain_row("last", (3,)))[1:] == ["fan(1, 1)", "!two(3, _)"]


def test_a_limit() -> None:
    db, _ = installed(CLOSURE)
    with pytest.raises(OperationalError, match="looked at more than 5 rows") as error:
        db.explain_row("tc", (1, 9), limit=5)
    assert "larger limit" in str(error.value)


def test_refusals() -> None:
    db, program = installed(CLOSURE)
    with pytest.raises(ProgrammingError, match=r"tc\(9, 1\) does not hold") as error:
        db.explain_row("tc", (9, 1))
    assert "explain_absence" in str(error.value)
    with pytest.raises(ProgrammingError, match="no Datalog program has a relation tcc") as error:
        db.explain_row("tcc", (9, 1))
    assert "tc" in (error.value.hint or "")
    with pytest.raises(ProgrammingError, match="the program has no relation nope"):
        program.explain_row("nope", (9, 1))
    with pytest.raises(InterfaceError, match="expected 2: a, b"):
        db.explain_row("tc", (9,))
    with pytest.raises(ProgrammingError):
        db.explain_row("tc", (9, "x"))
    other, _ = installed(CLOSURE)
    with other.transaction(), pytest.raises(NotSupportedError, match="inside a transaction"):
        other.explain_row("tc", (1, 9))
    program.drop()
    with pytest.raises(InterfaceError, match="was dropped"):
        program.explain_row("tc", (1, 9))


def test_several_aggregates_in_recursion_are_refused() -> None:
    text = """
    .decl e(a: number, b: number)
    e(1, 2). e(2, 1).
    .decl d(a: number, least: number, most: number)
    d(x, min(x), max(x)) :- e(x, _).
    d(y, min(v), max(w)) :- d(x, v, w), e(x, y).
    """
    with pytest.raises(NotSupportedError, match="how rows of d came about in its recursion is not kept"):
        prove(text, "d", 1, 1, 2)


PROMPT = """\
.decl e(a: number, s: symbol)
e(1, "a. b").
.decl p(a: number)
p(x) :- e(x, _), !e(x, "c").
.explain p(1)
.explain p(2).
.explain e(1, "a. b")
"""


def test_the_prompt(capsys: pytest.CaptureFixture[str]) -> None:
    DatalogPrompt(kpg.connect(), Format.TABLE).run_script(PROMPT)
    assert capsys.readouterr().out.splitlines() == [
        'p(1)  <- p(x) :- e(x, _), !e(x, "c").  [line 1]',
        '├─ e(1, "a. b")  (fact)',
        '└─ !e(1, "c")',
        "p(2) does not hold",
        'p(x) :- e(x, _), !e(x, "c").  [line 1]',
        '   fails: e(2, _), where !e(2, "c")',
        'e(1, "a. b")  (fact)',
    ]


@pytest.mark.parametrize("text", ["tc(1, x)", "tc(1, _)", "tc(1, 9), tc(1, 2)", "!tc(1, 9)", "tc(1, $a)"])
def test_only_rows_are_explained(text: str) -> None:
    _, program = installed(CLOSURE)
    with pytest.raises(InterfaceError, match="only a row of one relation can be explained"):
        program.explain_atom(text)
