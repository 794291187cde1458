"""A cancel that comes while a statement waits for its turn, and then for who has the database to itself."""

import kpg
from kpg.runtime.errors import CanceledError


def test_a_cancel_before_the_statement_is_held_ends_it() -> None:
    with kpg.connect() as db:
        hub = db.hub
        one, other = db.session(), db.session()
        one.sql("begin; create table made (id int)")
        asked = hub.submit(other, lambda: other.run_text(hub.engine, "select 1"))
        other.cancel()
        hub.serve()
        assert isinstance(asked.exception(timeout=0), CanceledError)
        one.sql("rollback")
