"""How errors show the place that they are about."""

import pytest

from kpg.api.database import Database
from kpg.runtime.errors import Error, InternalError, ProgrammingError, Span


def at(source: str, place: str) -> Span:
    start = source.index(place)
    return Span(source, start, start + len(place))


def test_the_line_with_carets_under_the_place() -> None:
    assert at("select a,\n  bb\nfrom t", "bb").excerpt() == "line 2:   bb\n          ^^"


def test_a_place_over_several_lines_is_marked_in_its_first() -> None:
    assert at("select (a\n  + b)", "(a\n  + b)").excerpt() == "line 1: select (a\n               ^^"


def test_a_name_is_told_where_it_stands_once() -> None:
    whole = at("grant a on b; create t (a int, b ab)", "create t (a int, b ab)")
    assert whole.at("A").excerpt() == f"line 1: {whole.source}\n{' ' * (8 + whole.source.index('a int'))}^"
    assert whole.at("ab").start == whole.source.index("ab)")
    assert whole.at("c") == whole.at("") == whole
    assert at("add a, a", "add a, a").at("a").end == len("add a, a")


def test_the_end_of_a_text_has_a_caret_too() -> None:
    assert Span("select", 6, 6).excerpt() == "line 1: select\n              ^"


LONG = "select " + ", ".join(f"column_{number}" for number in range(1000)) + " from t"


@pytest.mark.parametrize("place", ["select", "column_0,", "column_500", "column_999", "from t", "t", LONG])
def test_a_long_line_is_cropped_around_the_place(place: str) -> None:
    start = LONG.rindex(place)
    line, carets = Span(LONG, start, start + len(place)).excerpt().split("\n")
    assert len(line) <= 110 and len(carets) <= len(line)
    first, last = carets.index("^"), carets.rindex("^") + 1
    assert place.startswith(line[first:last])
    assert last - first == len(place) or line[last:] == "…"
    cropped = line.removeprefix("line 1: ")
    assert cropped.startswith("…") == (not LONG.startswith(cropped.strip("…")))
    assert cropped.endswith("…") == (not LONG.endswith(cropped.strip("…")))
    assert cropped.strip("…") in LONG


def test_an_error_is_message_place_and_hint() -> None:
    error = ProgrammingError("no such column", span=at("select x", "x"), hint="try y")
    assert str(error) == "no such column\nline 1: select x\n               ^\nhint: try y"
    assert isinstance(error, Error) and error.message == "no such column"


def test_a_notebook_shows_the_callers_lines_and_the_message(db: Database) -> None:
    with pytest.raises(ProgrammingError) as caught:
        db.sql("select a, bb from (select 1 as a) t")
    lines = caught.value._render_traceback_()
    assert lines[1].strip() == 'db.sql("select a, bb from (select 1 as a) t")'
    assert lines[2:] == f"ProgrammingError: {caught.value}".split("\n")
    assert "^^" in lines[4]
    broken = InternalError("broken")
    assert broken._render_traceback_()[0].startswith("kpg.runtime.errors.InternalError: broken")
