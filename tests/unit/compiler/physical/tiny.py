"""Tiny random TPC-H tables in which every query finds rows: key domains are small, texts are the queries'."""

import datetime
import random
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

Row = tuple[Any, ...]
NATIONS = ("FRANCE", "GERMANY", "BRAZIL", "CANADA", "SAUDI ARABIA", "KENYA")
REGIONS = ("EUROPE", "AMERICA", "ASIA")
BRANDS = ("Brand#12", "Brand#23", "Brand#34", "Brand#45")
TYPES = ("ECONOMY ANODIZED STEEL", "MEDIUM POLISHED BRASS", "PROMO PLATED BRASS")
CONTAINERS = ("SM CASE", "MED BOX", "LG BOX")
SIZES = (3, 9, 14, 15, 49)
SUPPLIERS, CUSTOMERS, PARTS, ORDERS = 12, 12, 12, 100


def tiny_data(seed: int) -> Mapping[str, Sequence[Row]]:
    """The eight tables."""
    pick = random.Random(seed)
    orders = [_order(pick, key) for key in range(ORDERS)]
    return {
        "region": [(key, name, "") for key, name in enumerate(REGIONS)],
        "nation": [(key, name, key % len(REGIONS), "") for key, name in enumerate(NATIONS)],
        "supplier": [_supplier(pick, key) for key in range(SUPPLIERS)],
        "customer": [_customer(pick, key) for key in range(CUSTOMERS)],
        "part": [_part(pick, key) for key in range(PARTS)],
        "partsupp": [
            (part, supplier, pick.randint(1, 99), _money(pick, 100), "")
            for part in range(PARTS)
            for supplier in pick.sample(range(SUPPLIERS), 6)
        ],
        "orders": orders,
        "lineitem": [
            _line(pick, order[0], number) for order in orders for number in range(pick.choice((1, 2, 7)))
        ],
    }


def _money(pick: random.Random, most: int) -> Decimal:
    return Decimal(pick.randint(0, most * 100)).scaleb(-2)


def _day(pick: random.Random, first: int, last: int) -> datetime.date:
    return datetime.date(pick.randint(first, last), pick.randint(1, 12), pick.randint(1, 28))


def _days(pick: random.Random) -> list[datetime.date]:
    return [_day(pick, 1994, 1996) for _ in range(3)]


def _supplier(pick: random.Random, key: int) -> Row:
    comment = pick.choice(("", "Customer and Complaints"))
    return (key, f"Supplier#{key}", "", key % len(NATIONS), "", _money(pick, 1000), comment)


def _customer(pick: random.Random, key: int) -> Row:
    phone = f"{pick.choice((13, 31, 23, 99))}-555"
    segment = pick.choice(("BUILDING", "MACHINERY"))
    return (key, f"Customer#{key}", "", pick.randrange(len(NATIONS)), phone, _money(pick, 1000), segment, "")


def _part(pick: random.Random, key: int) -> Row:
    name = pick.choice(("forest green", "forest red", "green blue"))
    brand, type_, container = pick.choice(BRANDS), pick.choice(TYPES), pick.choice(CONTAINERS)
    return (key, name, "", brand, type_, pick.choice(SIZES), container, Decimal("1.00"), "")


def _order(pick: random.Random, key: int) -> Row:
    # The last six customers never order, for the sake of NOT EXISTS.
    customer, comment = pick.randrange(CUSTOMERS - 6), pick.choice(("", "special requests"))
    status, total = pick.choice("FO"), _money(pick, 1000)
    return (
        key,
        customer,
        status,
        total,
        _day(pick, 1993, 1996),
        pick.choice(("1-URGENT", "5-LOW")),
        "",
        0,
        comment,
    )


def _line(pick: random.Random, order: int, number: int) -> Row:
    choose: Callable[[Sequence[str]], str] = pick.choice
    quantity = Decimal(pick.choice((1, 5, 12, 48, 50, 50)))
    charges = (quantity, _money(pick, 1000), Decimal(pick.choice((5, 6, 7))).scaleb(-2), Decimal("0.02"))
    days = sorted(_day(pick, 1994, 1996) for _ in range(3)) if pick.random() < 0.5 else _days(pick)
    flags = (choose("RAN"), choose("OF"))
    rest = (choose(("DELIVER IN PERSON", "NONE")), choose(("AIR", "MAIL", "SHIP")), "")
    keys = (order, pick.randrange(PARTS), pick.randrange(SUPPLIERS), number)
    return (*keys, *charges, *flags, *days, *rest)
