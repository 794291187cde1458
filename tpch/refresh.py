"""A deterministic stream of refreshes over generated TPC-H data.

Each refresh deletes old orders with their lineitems and inserts as many new ones (the specification's
RF1 and RF2), and updates prices, parts, stock, customers and suppliers, now and then nations and regions.
"""

from pathlib import Path

import numpy as np

from kpg.tpch.batch import Batch
from kpg.tpch.orders import Orders
from kpg.tpch.updates import Updates


class RefreshStream:
    """Refreshes of ``orders`` orders each, by default 0.1% of those in ``folder``.

    The stream keeps track of what it did: each batch is valid for the data that the ones before it left.
    Equal folders and seeds give equal streams.
    """

    def __init__(self, folder: Path, *, seed: int, orders: int | None = None) -> None:
        random = np.random.default_rng(seed)
        self._orders = Orders(folder, random)
        self._updates = Updates(folder, random)
        self.orders = max(1, len(self._orders) // 1000) if orders is None else orders
        self._number = 0

    def next_batch(self) -> Batch:
        """The next refresh."""
        self._number += 1
        updates = self._updates.refresh(self._number, self.orders)
        orders = self._orders.refresh(self.orders, self._updates.prices, self._updates.hot_parts)
        return Batch(self._number, {**orders, **updates})
