"""What a database remembers is bounded, and what is used stays."""

from kpg.session.engine import LruCache


def test_what_was_used_least_lately_is_forgotten() -> None:
    latest: LruCache[str, int] = LruCache(2)
    latest.put("a", 1)
    latest.put("b", 2)
    assert latest.get("a") == 1
    latest.put("c", 3)
    assert [latest.get(key) for key in "abc"] == [1, None, 3]
    assert len(latest) == 2
    latest.clear()
    assert latest.get("a") is None
