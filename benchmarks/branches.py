"""What a branch costs: TPC-H with its 22 views, a branch of it, and what each of the two does first.

python -m benchmarks.branches --scale 0.1
"""

import argparse
import time
from collections.abc import Callable

import kpg
from benchmarks._tpch import TABLES, Encoded, add_arguments, folder, install


def measured(what: str, run: Callable[[], object]) -> object:
    """Run something, and print how long it took."""
    start = time.perf_counter()
    result = run()
    print(f"{what:56} {1000 * (time.perf_counter() - start):9.1f} ms")
    return result


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser, 0.1)
    options = parser.parse_args()
    db = Encoded.of(folder(options), TABLES).database()
    for number in options.queries:
        install(db, number)
    change = "update orders set o_totalprice = o_totalprice + 1 where o_orderkey = 1"
    db.branch().discard()  # the modules and kernels that it takes
    db.sql(change)
    measured("a commit without a branch", lambda: db.sql(change))
    branch = measured("a branch", db.branch)
    assert isinstance(branch, kpg.Branch)
    measured("the first commit in the branch", lambda: branch.sql(change))
    measured("the second", lambda: branch.sql(change))
    measured("the first commit in the trunk after that", lambda: db.sql(change))
    measured("the second", lambda: db.sql(change))
    measured("what differs in orders", lambda: branch.diff("orders"))
    measured("discarding the branch", branch.discard)
    other = measured("another branch", db.branch)
    assert isinstance(other, kpg.Branch)
    measured("the first commit in the trunk", lambda: db.sql(change))
    other.sql("delete from lineitem where l_orderkey = 7")
    measured("merging a delete of one order's lines", other.merge)


if __name__ == "__main__":
    main()
