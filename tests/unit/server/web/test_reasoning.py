"""POST /datalog: programs, goals, updates."""

import pyarrow

from tests.unit.server.web.conftest import Web

PROGRAM = """
.decl edge(a: number, b: number)
.input edge
.decl reach(a: number, b: number)
.output reach
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
"""


def test_a_program_its_updates_and_goals(web: Web) -> None:
    status, found = web.datalog(PROGRAM)
    assert (status, found["relations"], found["goals"]) == (200, ["edge", "reach"], [])
    status, found = web.datalog(
        "+edge(1, 2). +edge(2, $n). ?- reach($src, x). ?- edge(x, y).", {"src": 1, "n": 3}
    )
    assert status == 200
    assert found["changed"] == 2
    assert [(one["goal"], sorted(one["rows"])) for one in found["goals"]] == [
        ("?- reach($src, x).", [[2], [3]]),
        ("?- edge(x, y).", [[1, 2], [2, 3]]),
    ]
    assert web.rows("select count(*) from reach") == [[3]]


def test_arrow(web: Web) -> None:
    web.datalog(".decl few(a: number, b: symbol)\n.input few")
    headers = {"Accept": "application/vnd.apache.arrow.stream", "Content-Type": "application/datalog"}
    status, said, data = web.ask("POST", "/datalog", '+few(1, "x"). ?- few(a, b).', headers)
    assert (status, said["content-type"]) == (200, "application/vnd.apache.arrow.stream")
    with pyarrow.ipc.open_stream(data) as stream:
        assert stream.read_all().to_pylist() == [{"a": 1, "b": "x"}]
    assert web.ask("POST", "/datalog", '+few(2, "y").', headers)[0] == 400


def test_errors_have_all_diagnostics(web: Web) -> None:
    status, found = web.datalog(".decl p(a: number)\np(x) :- q(x).\np(y) :- r(y).")
    error = found["error"]
    assert (status, error["line"]) == (400, 2)
    assert len(error["diagnostics"]) >= 2


def test_parameters_that_are_none(web: Web) -> None:
    assert web.datalog("?- nobody(x).", [1])[0] == 400
    status, found = web.datalog(".decl e(a: number)\n.input e", {"a": 1})
    assert (status, found["error"]["message"]) == (400, "a program has no parameters")
    web.datalog(".decl e(a: number)\n.input e")
    status, found = web.datalog("?- e(x).", {"y": 1})
    assert (status, found["error"]["message"]) == (400, "there is no parameter $y")
    status, found = web.datalog("?- e($x).")
    assert (status, found["error"]["message"]) == (400, "there is no value for $x")
