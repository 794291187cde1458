"""Who hears an ego view's rows: filters on the reader tell of which readers."""

import numpy as np

import kpg
from kpg.runtime.ego.overlay import ALL_READERS, NO_READERS
from kpg.runtime.operators.ego import find_ego, find_followed_readers
from kpg.runtime.worker.worker import Worker


def test_filters_tell_which_readers_are_heard() -> None:
    db = kpg.connect()
    db.sql("CREATE TABLE e (a BIGINT, b BIGINT); CREATE TABLE w (o BIGINT, n BIGINT, v BIGINT)")
    view = db.ego("v", edges="e", writes="w")
    worker = db._engine.executor
    assert isinstance(worker, Worker)
    ego = find_ego(worker.views["v"].output)
    assert ego is not None
    assert find_followed_readers(ego, NO_READERS) is NO_READERS
    words = np.array([1, 2, 3, 9])
    db.sql(
        "CREATE MATERIALIZED VIEW small AS SELECT value * 2 AS more, node FROM v WHERE node < 3 AND value > 7"
    )
    heard = find_followed_readers(ego, NO_READERS)
    assert heard.contains(words).tolist() == [True, True, False, False]
    assert find_followed_readers(ego, heard) is heard
    db.sql("CREATE MATERIALIZED VIEW odd AS SELECT * FROM v WHERE 6 / (node - 1) = 3 OR node = 9")
    assert find_followed_readers(ego, heard).contains(words).all()  # the filter fails for 1: who knows
    db.sql("DROP MATERIALIZED VIEW odd")
    with view.subscribe(print, nodes=[9]):
        assert find_followed_readers(ego, heard).contains(words).tolist() == [True, True, False, True]
    db.sql("CREATE MATERIALIZED VIEW high AS SELECT * FROM v WHERE value > 7")
    assert find_followed_readers(ego, heard) is ALL_READERS
