"""What is compiled ahead, and builds that refuse to be wrong."""

import shutil
import subprocess
import sys
from pathlib import Path

from kpg.runtime.kernels import Kernel
from kpg.runtime.native.signature import parse
from tests.markdown import blocks

ROOT = Path(__file__).parents[3]
CALLED = """
from kpg.runtime.native.declare import Kernel
prepare = Kernel.prepare
def told(self):
    if self._compiled is None:
        print("called", f"{self.file}.{self.__name__}")
    prepare(self)
Kernel.prepare = told
"""
EVERY = """
from kpg.runtime.kernels import every_kernel
for kernel in every_kernel():
    print(kernel.file, kernel.__name__, kernel.signature, sep="|")
"""


def lines(program: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_the_usual_kernels_are_those_of_the_readme_s_first_example() -> None:
    from kpg.runtime.native.workers import USUAL

    example = blocks((ROOT / "README.md").read_text(encoding="utf-8"))[0].code
    called = {line.split()[1] for line in lines(CALLED + example) if line.startswith("called")}
    assert called == set(USUAL)


def test_every_signature_is_understood() -> None:
    kernels = [line.split("|") for line in lines(EVERY)]
    assert len(kernels) > 60
    for _, _, signature in kernels:
        assert parse(signature).text.count(" ") > 0


def test_a_tree_without_its_links_is_not_built(tmp_path: Path) -> None:
    """As git writes it where it may not make links: text files with the links' targets."""
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "build_backend", tmp_path / "build_backend")
    (tmp_path / "kpg").mkdir()
    shutil.copy(ROOT / "kpg" / "__init__.py", tmp_path / "kpg")
    for name in ("compiler", "runtime", "grammars", "tpch"):
        (tmp_path / "kpg" / name).write_text(f"../{name}")
    done = subprocess.run(
        [sys.executable, "setup.py", "--version"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "kpg/compiler is not a folder: this checkout was made without symbolic links" in done.stderr


def test_a_kernel_knows_its_name_in_compiled_code() -> None:
    def nothing(x: int) -> int:
        return x

    assert Kernel(nothing, "int64(int64)").symbol == "kpg_test_build_nothing"


def test_all_kernels_that_are_missing_are_compiled_ahead(tmp_path: Path) -> None:
    program = f"""
import os
os.environ["KPG_CACHE_DIR"] = {str(tmp_path)!r}
from kpg.runtime.kernels import every_kernel
from kpg.runtime.native import ahead
print(ahead.begin() == len(every_kernel()))
os.environ["KPG_KERNELS"] = "interpret"
print(ahead.begin())
"""
    assert lines(program) == ["True", "0"]
