"""Ego-centric aggregates: overlays of two kinds of graphs, and reads and writes by them, beside no overlay.

python -m benchmarks.ego build --nodes 1000000 --edges 10000000 --only vnm_a
python -m benchmarks.ego run --nodes 100000 --edges 1000000 --plot docs/images/ego.svg
python -m benchmarks.ego shift
python -m benchmarks.ego api --nodes 20000 --edges 200000
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import kpg
from benchmarks._bars import draw
from kpg.runtime.dictionary import Dictionary
from kpg.runtime.ego.construction import Construction, build
from kpg.runtime.ego.decisions import propagate_frequencies
from kpg.runtime.ego.families import make_family, measure_costs
from kpg.runtime.ego.overlay import WRITER, group_edges
from kpg.runtime.ego.overlay_engine import Change, OverlayEngine
from kpg.runtime.plan import EgoCall, EgoFamily
from kpg.runtime.types import BIGINT, INTEGER, array

BATCH = 2000
TOGETHER = 150
"""Batches that one engine serves before it is another's turn, which finds others' words in the caches."""

TURN = 40
"""Of what turns from reading to writing: shorter, to see when."""


def social(nodes: int, edges: int, random: np.random.Generator) -> np.ndarray:
    """Pairs (reader, writer): readers follow writers by a power law."""
    readers = (nodes * random.random(edges) ** 1.5).astype(np.int64)
    writers = np.minimum(random.zipf(1.7, edges) - 1, nodes - 1)
    spread = random.permutation(nodes)
    far = random.random(edges) < 0.5
    writers[far] = random.integers(0, nodes, int(far.sum()))
    return np.unique(np.stack((spread[readers], writers)), axis=1)


def web(nodes: int, edges: int, random: np.random.Generator) -> np.ndarray:
    """Sections of sites, whose pages have most links of a common template, and a few of their own.

    Sections are as large, and templates as long, as power laws say. A template's links go to pages of its
    section, and to popular pages anywhere; a page has nineteen of twenty of them, and some of its own.
    """
    mean = edges / nodes
    sizes = np.minimum(4 / random.random(nodes // 4) ** (1 / 1.3), 2000).astype(np.int64)
    sizes = sizes[: int(np.searchsorted(np.cumsum(sizes), nodes)) + 1]
    starts = np.cumsum(sizes) - sizes
    lengths = np.minimum(1.15 * mean / 3 / random.random(sizes.shape[0]) ** (2 / 3), 50 * mean).astype(
        np.int64
    )
    owner = np.repeat(np.arange(sizes.shape[0]), lengths)
    near = starts[owner] + (sizes[owner] * random.random(owner.shape[0])).astype(np.int64)
    popular = np.minimum(random.zipf(1.7, owner.shape[0]) - 1, nodes - 1)
    targets = np.where(random.random(owner.shape[0]) < 0.6, near, popular)
    section = np.repeat(np.arange(sizes.shape[0]), sizes)[:nodes]
    count = lengths[section]
    heads = np.cumsum(lengths) - lengths
    places = np.repeat(heads[section] - (np.cumsum(count) - count), count) + np.arange(int(count.sum()))
    pages = np.repeat(np.arange(nodes), count)
    kept = random.random(pages.shape[0]) < 0.95
    own = random.integers(0, nodes, edges // 5)
    other = np.where(random.random(own.shape[0]) < 0.5, own + random.integers(-50, 50, own.shape[0]),
                     random.integers(0, nodes, own.shape[0]))  # fmt: skip
    pairs = np.stack(
        (np.concatenate((pages[kept], own)), np.concatenate((targets[places][kept], other)) % nodes)
    )
    return np.unique(pairs, axis=1)


def crawl(nodes: int, edges: int, random: np.random.Generator) -> np.ndarray:
    """The copying model: a page has an earlier one's links, but for a twentieth of its own."""
    degree, site = max(1, edges // nodes), 1000
    pages = np.arange(nodes)
    first = pages // site * site
    pattern = first + (random.random(nodes) * (pages - first)).astype(np.int64)
    shape = (nodes, degree)
    near = first[:, None] + random.integers(0, site, shape)
    popular = random.zipf(1.7, shape) - 1
    where = random.random(shape)
    links = (
        np.where(where < 0.5, near, np.where(where < 0.8, popular, random.integers(0, nodes, shape))) % nodes
    )
    copied = random.random(shape) < 0.95
    for page in range(1, nodes):
        if pattern[page] < page:
            links[page] = np.where(copied[page], links[pattern[page]], links[page])
    return np.unique(np.stack((np.repeat(pages, degree), links.reshape(-1))), axis=1)


def groups(nodes: int, edges: int, random: np.random.Generator) -> np.ndarray:
    """Members of groups, who hear all that are in theirs: as many as a power law says, and 200 at least.

    Most members of a group live near each other, so that groups overlap. It is what shares most.
    """
    sizes = np.minimum(200 / random.random(edges // 200) ** (1 / 2.2), 1000).astype(np.int64)
    sizes = sizes[: int(np.searchsorted(np.cumsum(sizes**2), edges)) + 1]
    group = np.repeat(np.arange(sizes.shape[0]), sizes)
    home = (nodes * random.random(sizes.shape[0])).astype(np.int64)[group]
    members = (home + sizes[group] * random.standard_normal(group.shape[0])).astype(np.int64) % nodes
    count = sizes[group]
    heads = (np.cumsum(sizes) - sizes)[group]
    places = np.repeat(heads - (np.cumsum(count) - count), count) + np.arange(int(count.sum()))
    return np.unique(np.stack((np.repeat(members, count), members[places])), axis=1)


GRAPHS = {"social": social, "web": web, "crawl": crawl, "groups": groups}


def forget_peak() -> float:
    """Megabytes that the process takes now; the peak is measured from here on (on Linux)."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    return peak()


def peak() -> float:
    """Megabytes that the process took at most since then."""
    with open("/proc/self/status") as file:
        (line,) = (line for line in file if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def builds(nodes: int, edges: int, only: str | None, graphs: list[str]) -> None:
    """The sharing index, time, memory and depth of each construction on each graph."""
    print("| graph | edges | construction | sharing after each round | seconds | MB | of the graph | depth |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in graphs:
        pairs = GRAPHS[name](nodes, edges, np.random.default_rng(1))
        readers, writers = np.ascontiguousarray(pairs[0]), np.ascontiguousarray(pairs[1])
        del pairs
        for construction in Construction:
            if construction is Construction.NONE or (only and construction.value not in only.split(",")):
                continue
            lists = group_edges(readers, writers, nodes)
            before = forget_peak()
            overlay, report = build(construction, nodes, nodes, lists)
            more = peak() - before
            depth = float(overlay.levels()[nodes : 2 * nodes].mean())
            rounds = " ".join(f"{one:.3f}" for one in report.sharing)
            graph = 8 * readers.shape[0] / 2**20
            print(
                f"| {name} | {readers.shape[0]} | {construction.value} | {rounds} ({overlay.sharing:.3f}) |"
                f" {report.seconds:.1f} | {more:.0f} | {more / graph:.1f} x | {depth:.2f} |",
                flush=True,
            )
            del overlay


FAMILIES = {
    "sum": (EgoFamily.SUMS, EgoCall("sum", (0,), (BIGINT,), BIGINT), 0),
    "max": (EgoFamily.GREATEST, EgoCall("max", (0,), (BIGINT,), BIGINT), 0),
    "top_k": (EgoFamily.COUNTS, EgoCall("top_k", (0, 1), (BIGINT, INTEGER), array(BIGINT)), 10),
}
WAYS = (("all-push", "none", "push"), ("all-pull", "none", "pull"), ("decisions", "none", "auto"),
        ("overlay", "vnm_a", "auto"), ("no edges", "nobody", "push"))  # fmt: skip
"""In the last each reader has one writer, who never writes: what is around overlays, and cannot be saved."""
OVERLAY = 3


def traffic(
    nodes: int, ratio: float, random: np.random.Generator, count: int, batch: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Batches of writers and readers, by Zipf, so many writes to a read: who writes much is read much."""
    share = ratio / (1 + ratio)
    rank = np.random.default_rng(nodes).permutation(nodes)
    chances = np.cumsum(1 / np.arange(1, nodes + 1))
    for _ in range(count):
        who = rank[np.searchsorted(chances, chances[-1] * random.random(batch))]
        writes = round(share * batch) if batch > 1 else int(random.random() < share)
        yield who[:writes], who[writes:]


def prepared(
    nodes: int, ratio: float, random: np.random.Generator, held: np.ndarray, batch: int
) -> tuple[list[tuple[Change, np.ndarray]], int]:
    """Batches of changes, each write in the place of the node's last one, and of readers; and how many."""
    nothing = np.empty((2, 0), np.int64)
    batches, served = [], 0
    for writers, readers in traffic(
        nodes, ratio, random, TOGETHER * BATCH // batch // (1 if batch > 1 else 50), batch
    ):
        writers = np.unique(writers)
        values = random.zipf(1.5, writers.shape[0]) % 1000
        old = held[writers]
        held[writers] = values
        rows = np.stack((np.concatenate((writers, writers)), np.concatenate((old, values))))
        diffs = np.repeat(np.array([-1, 1]), writers.shape[0])
        order = np.lexsort(rows[::-1])  # as steps consolidate what they bring
        rows = np.ascontiguousarray(rows[:, order])
        batches.append((Change(nothing, nothing[0], rows, diffs[order]), readers))
        served += writers.shape[0] + readers.shape[0]
    return batches, served


def served(engine: OverlayEngine, batches: list[tuple[Change, np.ndarray]]) -> float:
    """Seconds of processor time that an engine takes for batches: many between two looks at the clock."""
    begun = time.process_time()
    for change, readers in batches:
        if change.writes.shape[1]:
            engine.apply(change)
        if readers.shape[0]:
            engine.read(readers)
        engine.maintain()
    return time.process_time() - begun


def throughput(
    engines: list[OverlayEngine],
    nodes: int,
    ratio: float,
    seconds: float,
    held: np.ndarray,
    batch: int = BATCH,
) -> list[float]:
    """Writes and reads a second of processor time of each engine: all serve the same batches, by turns."""
    random = np.random.default_rng(7)
    took, total = np.zeros(len(engines)), 0
    while took.min() < seconds:
        batches, count = prepared(nodes, ratio, random, held, batch)
        took += [served(engine, batches) for engine in engines]
        total += count
    return (total / took).tolist()


def loaded(
    family: str, ways: list[tuple[str, str]], pairs: np.ndarray, nodes: int
) -> tuple[list[OverlayEngine], np.ndarray]:
    """Engines of constructions and modes with the graph and one write of each node, and these writes."""
    kind, call, few = FAMILIES[family]
    values = np.random.default_rng(3).zipf(1.5, nodes) % 1000
    alone = np.stack((np.unique(pairs[0]), np.full(np.unique(pairs[0]).shape[0], nodes)))
    engines = []
    for construction, mode in ways:
        partial = make_family(kind, (call,), few, Dictionary())
        costs = measure_costs(kind, builds_arrays=few > 0)
        given, made = (alone, "none") if construction == "nobody" else (pairs, construction)
        engines.append(OverlayEngine(partial, Construction(made), mode, costs))
        writes = np.stack((np.arange(nodes + 1), np.append(values, 1)))
        engines[-1].apply(
            Change(given, np.ones(given.shape[1], np.int64), writes, np.ones(nodes + 1, np.int64))
        )
    return engines, values


def visited(engine: OverlayEngine, nodes: int, ratio: float) -> float:
    """Edges that a write or a read goes over, on average, by the traffic's law and the engine's labels."""
    overlay, share = engine.overlay, ratio / (1 + ratio)
    law = np.zeros(nodes + 1)
    law[np.random.default_rng(nodes).permutation(nodes)] = 1 / np.arange(1, nodes + 1)
    law /= law.sum()
    push, pull = np.zeros(overlay.room), np.zeros(overlay.room)
    for ids, often, part in ((engine._writers, push, share), (engine._readers, pull, 1 - share)):
        words, places = ids.items()
        often[places] = part * law[words]
    often = propagate_frequencies(overlay, overlay.topological_order(), push, pull)
    others = overlay.kinds != WRITER
    down = often.push[others & (overlay.pushed == 1)].sum()
    return float(down + (often.pull * overlay.inputs.size)[others & (overlay.pushed == 0)].sum())


def learn(engines: list[OverlayEngine], nodes: int, ratio: float, held: np.ndarray) -> None:
    """Have overlays, labels and the nodes' numbers be those of the traffic, and not of what was before."""
    for engine in engines:
        engine.overlay.write_counts[:] = engine.overlay.read_counts[:] = 0
    throughput(engines, nodes, ratio, 0.3, held)
    for engine in engines:
        engine.rebuild()


def runs(
    nodes: int,
    edges: int,
    ratios: tuple[float, ...],
    graphs: list[str],
    seconds: float,
    families: list[str],
    plot: Path | None,
    batch: int,
) -> None:
    """Throughput of each aggregate at each ratio, with and without an overlay."""
    panels: dict[str, dict[str, list[float]]] = {}
    print(
        "| graph | aggregate | writes to reads |", " | ".join(way for way, _, _ in WAYS),
        "| overlay to the better | no edges to the better | edges visited by each |",
    )  # fmt: skip
    print("| --- | --- | --- |", " | ".join("---" for _ in WAYS), "| --- | --- | --- |")
    for name in graphs:
        pairs = GRAPHS[name](nodes, edges, np.random.default_rng(1))
        for family in families:
            engines, held = loaded(family, [way[1:] for way in WAYS], pairs, nodes)
            for ratio in ratios:
                learn(engines, nodes, ratio, held)
                rates = throughput(engines, nodes, ratio, seconds, held, batch)
                edges_of = " ".join(f"{visited(engine, nodes, ratio):.2f}" for engine in engines[:-1])
                lines = panels.setdefault(f"{name}, {family}", {})
                for (way, _, _), rate in zip(WAYS, rates, strict=True):
                    lines.setdefault(way, []).append(rate)
                shown = " | ".join(f"{rate:,.0f}" for rate in rates)
                over, most = rates[OVERLAY] / max(rates[:2]), rates[-1] / max(rates[:2])
                print(
                    f"| {name} | {family} | {ratio} | {shown} | {over:.2f} x | {most:.2f} x | {edges_of} |",
                    flush=True,
                )
    if plot is not None:
        draw(panels, ratios, plot)


def there_and_back(
    nodes: int, ratio: float, held: np.ndarray, seed: int, count: int
) -> list[tuple[Change, np.ndarray]]:
    """Batches that may be served again and again: what they write is undone in the end, batch by batch."""
    batches = prepared(nodes, ratio, np.random.default_rng(seed), held.copy(), BATCH)[0][:count]
    return batches + [(change.opposite(), readers) for change, readers in reversed(batches)]


def shift(nodes: int, edges: int, graphs: list[str], families: list[str]) -> None:
    """A workload that turns from reading to writing, or back: how long until the rate is the best there is.

    All that is served is drawn before, so that what is counted is serving and comparing labels only. Two
    engines serve the same by turns: one that was built and decided for what it turns to, and one for what
    was before. The rate is back when from then on the median of turns of each half second is within a tenth
    of the other's.
    """
    print("| graph | aggregate | writes to reads | at first | back after | later | changed labels |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for graph in graphs:
        pairs = GRAPHS[graph](nodes, edges, np.random.default_rng(1))
        for family in families:
            (one, other), held = loaded(family, [("vnm_a", "auto")] * 2, pairs, nodes)
            for before, after in ((0.05, 20.0), (20.0, 0.05)):
                learn([one, other], nodes, before, held)
                other.overlay.write_counts[:] = other.overlay.read_counts[:] = 0
                for seed in range(4):  # not of what is served below: only the law is to be known
                    served(other, there_and_back(nodes, after, held, seed, TOGETHER))
                other.rebuild()
                batches = there_and_back(nodes, after, held, 8, TURN)
                (seconds, shares), flips = turned(one, other, batches)
                half = [shares[(seconds >= at) & (seconds < at + 0.5)] for at in seconds if at < 9.5]
                late = [place for place, some in enumerate(half) if np.median(some) < 0.9]
                back = float(seconds[late[-1] + 1]) if late else 0.0
                print(
                    f"| {graph} | {family} | {before} to {after} | {np.median(shares[:3]):.2f} |"
                    f" {back:.1f} s | {np.median(shares[seconds > back]):.2f} | {flips} |",
                    flush=True,
                )


def turned(
    one: OverlayEngine, other: OverlayEngine, batches: list[tuple[Change, np.ndarray]]
) -> tuple[np.ndarray, int]:
    """Serve batches by turns for ten seconds of the first one's work: after how many seconds of it, what
    share of the other's rate it has; and how many labels it has changed."""
    flips, worked, rates = one.flip_count, 0.0, []
    while worked < 10:
        took, best = served(one, batches), served(other, batches)
        worked += took
        rates.append((worked, best / took))
    return np.array(rates).T, one.flip_count - flips


def api(nodes: int, edges: int, *, beside: bool) -> None:
    """Reads through the public interface, one by one and many at once, and writes; both beside plain SQL."""
    pairs = social(nodes, edges, np.random.default_rng(1))
    for plain in (False, True) if beside else (False,):
        db = kpg.connect()
        db.sql("CREATE TABLE edges (a BIGINT, b BIGINT, PRIMARY KEY (a, b))")
        db.sql("CREATE TABLE writes (o BIGINT PRIMARY KEY, n BIGINT, v INT)")
        db.insert("edges", {"a": pairs[0], "b": pairs[1]})
        values = np.arange(nodes)
        db.insert("writes", {"o": values, "n": values, "v": values % 1000})
        begun = time.perf_counter()
        if plain:
            db.sql(
                "CREATE MATERIALIZED VIEW totals AS SELECT a AS node, sum(v) AS value FROM edges JOIN writes"
                " ON n = b GROUP BY a"
            )
        else:
            view = db.ego("totals", edges="edges", writes="writes")
        print(f"{'plain SQL' if plain else 'ego view'}: made in {time.perf_counter() - begun:.2f} s")
        random, order = np.random.default_rng(5), nodes
        for size in (1, 10_000):
            took = []
            for _ in range(200 if size == 1 else 10):
                who = np.minimum(random.zipf(1.3, size) - 1, nodes - 1)
                rows = {"o": np.arange(order, order + size), "n": who, "v": who % 100}
                order += size
                begun = time.perf_counter()
                db.insert("writes", rows)
                took.append(time.perf_counter() - begun)
            print(
                f"  writes by {size}: {size / np.median(took):,.0f} a second,"
                f" p99 {np.quantile(took, 0.99) * 1e3:.2f} ms"
            )
        if plain:
            continue
        for mode in ("auto", "pull", "continuous"):
            if mode == "pull":
                view = db.ego("pulled", edges="edges", writes="writes", mode="pull", overlay="none")
            if mode == "continuous":
                view.subscribe(lambda changes: None)
                db.insert("writes", [(order, 1, 1)])
            took = []
            for node in random.integers(0, nodes, 2000).tolist():
                begun = time.perf_counter()
                view.read(node)
                took.append(time.perf_counter() - begun)
            print(
                f"  {mode}: read() p50 {np.median(took) * 1e6:.0f} us,"
                f" p99 {np.quantile(took, 0.99) * 1e6:.0f} us"
            )
            took = []
            for many in random.integers(0, nodes, (200, 1000)):
                begun = time.perf_counter()
                view.read_many(many)
                took.append(time.perf_counter() - begun)
            print(
                f"  {mode}: read_many() of 1,000: a node p50 {np.median(took) * 1e3:.2f} us,"
                f" p99 {np.quantile(took, 0.99) * 1e3:.2f} us"
            )


def beside_sql(nodes: int, edges: int, ratios: tuple[float, ...]) -> None:
    """Writes and reads one by one through the public interface: the ego view, and plain SQL that is kept."""
    pairs = social(nodes, edges, np.random.default_rng(1))
    rates: dict[bool, list[float]] = {}
    for plain in (False, True):
        db = kpg.connect()
        db.sql("CREATE TABLE edges (a BIGINT, b BIGINT); CREATE TABLE writes (o BIGINT, n BIGINT, v INT)")
        db.insert("edges", {"a": pairs[0], "b": pairs[1]})
        values = np.arange(nodes)
        db.insert("writes", {"o": values, "n": values, "v": values % 1000})
        if plain:
            text = (
                "SELECT a AS node, sum(v) AS value FROM edges JOIN (SELECT *, row_number() OVER"
                " (PARTITION BY n ORDER BY o DESC) AS k FROM writes) AS w ON n = b WHERE k <= 1 GROUP BY a"
            )
            db.sql(f"CREATE MATERIALIZED VIEW totals AS {text}")
        else:
            view = db.ego("totals", edges="edges", writes="writes", window=1)
        order, random = nodes, np.random.default_rng(2)
        for ratio in ratios:
            took = 0.0
            for turn in range(2):  # the first is to learn from
                begun = time.process_time()
                for who, asked in traffic(nodes, ratio, random, 600, 1):
                    for node in who.tolist():
                        db.insert("writes", [(order, node, order % 100)])
                        order += 1
                    for node in asked.tolist():
                        if plain:
                            db.query("SELECT value FROM totals WHERE node = ?", [node]).fetchall()
                        else:
                            view.read(node)
                took = time.process_time() - begun
                if not plain and turn == 0:
                    view.decide()
            rates.setdefault(plain, []).append(600 / took)
    print("| writes to reads | ego view | plain SQL | |")
    print("| --- | --- | --- | --- |")
    for ratio, ego, sql in zip(ratios, rates[False], rates[True], strict=True):
        print(f"| {ratio} | {ego:,.0f} | {sql:,.0f} | {ego / sql:.1f} x |")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["build", "run", "shift", "api", "sql"])
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--only")
    parser.add_argument("--alone", action="store_true", help="api without plain SQL")
    parser.add_argument("--graphs", default="social,web")
    parser.add_argument("--families", default="sum,max,top_k")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--batch", type=int, default=BATCH, help="writes and reads at once; 1: one at a time")
    parser.add_argument("--ratios", default="0.05,0.2,1,5,20", help="writes to a read, with commas")
    parser.add_argument("--plot", type=Path, help="SVG of what run measures")
    given = parser.parse_args()
    graphs = given.graphs.split(",")
    ratios = tuple(map(float, given.ratios.split(",")))
    match given.what:
        case "build":
            builds(given.nodes, given.edges, given.only, graphs)
        case "run":
            families = given.families.split(",")
            runs(
                given.nodes, given.edges, ratios, graphs, given.seconds, families, given.plot, given.batch
            )  # fmt: skip
        case "shift":
            shift(given.nodes, given.edges, graphs, given.families.split(","))
        case "sql":
            beside_sql(given.nodes, given.edges, ratios)
        case _:
            api(given.nodes, given.edges, beside=not given.alone)


if __name__ == "__main__":
    main()
