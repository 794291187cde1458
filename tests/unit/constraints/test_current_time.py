"""CHECKs and generated columns cannot use the present time."""

import pytest

import kpg


@pytest.mark.parametrize("condition", ["t < now()", "t < clock_timestamp()", "t::date < CURRENT_DATE"])
def test_a_check_of_the_present_time_is_refused(condition: str) -> None:
    with pytest.raises(kpg.NotSupportedError, match="the present time in CHECK is not supported"):
        kpg.connect().sql(f"create table a (t timestamptz check ({condition}))")


def test_a_text_and_a_conversion_are_no_present_time() -> None:
    db = kpg.connect()
    db.sql("create table a (t timestamptz check (t > to_timestamp(0) and t::text <> 'now()'))")
    db.sql("insert into a values ('2020-01-01')")
    with pytest.raises(kpg.IntegrityError):
        db.sql("insert into a values ('1960-01-01')")
