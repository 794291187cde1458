"""Lists of query numbers as the command line takes them."""

import typer


def query_numbers(text: str | None) -> list[int]:
    """``"3,5,18"`` as numbers, ``"1-3"`` as all between; none for None. Wrong usage ends the command."""
    numbers: list[int] = []
    for part in (text or "").replace(" ", "").split(","):
        first, dash, last = part.partition("-")
        if not part:
            continue
        if not first.isdigit() or (dash and not last.isdigit()):
            raise typer.BadParameter(f"{part!r} is not a query number", param_hint="--queries")
        numbers.extend(range(int(first), int(last or first) + 1))
    for number in numbers:
        if not 1 <= number <= 22:
            raise typer.BadParameter(f"TPC-H has queries 1 to 22, not {number}", param_hint="--queries")
    return list(dict.fromkeys(numbers))
