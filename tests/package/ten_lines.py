"""``python ten_lines.py README.md``: the README's first example, run with the kpg that is installed."""

import contextlib
import io
import re
import sys
import time
from pathlib import Path


def main(readme: str) -> None:
    """Run the example; exit if it prints anything but what the README says."""
    text = Path(readme).read_text(encoding="utf-8")
    program, expected = re.findall(r"```(?:python|text)\n(.*?)```", text, re.DOTALL)[:2]
    printed = io.StringIO()
    begin = time.perf_counter()
    with contextlib.redirect_stdout(printed):
        exec(compile(program, readme, "exec"), {})
    seconds = time.perf_counter() - begin
    if printed.getvalue() != expected:
        sys.exit(f"the ten lines printed\n{printed.getvalue()}and not\n{expected}")
    if "numba" in sys.modules:
        sys.exit("the ten lines imported numba: the wheel's kernels were not used")
    print(f"ten lines, first start: as the README says, {seconds:.2f} s")


if __name__ == "__main__":
    main(sys.argv[1])
