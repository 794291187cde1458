"""What pyproject.toml cannot say of a build: it compiles the kernels, refuses a tree without its links."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
LINKED = ("compiler", "runtime", "grammars", "tpch")

for name in LINKED:
    if not (ROOT / "kpg" / name).is_dir():
        raise SystemExit(
            f"kpg/{name} is not a folder: this checkout was made without symbolic links, and a build of it "
            f"would lack {name}. Run git config core.symlinks true, then git checkout kpg/{name}"
        )


def can_compile() -> bool:
    """Whether this build makes machine code: there is a C compiler, and the kernels know the platform."""
    known = sys.platform.startswith("linux") or sys.platform == "darwin"
    return known and any(map(shutil.which, [os.environ.get("CC", "cc").split()[0], "gcc", "clang"]))


class BuildPython(build_py):
    """The Python files, then the kernels' libraries beside them."""

    def run(self) -> None:
        """Copy and compile; an editable installation compiles nothing."""
        super().run()
        if self.editable_mode:
            return
        if not can_compile():
            self.warn(
                "no C compiler: the wheel has no compiled kernels, they will be compiled when first called"
            )
            return
        target = Path(self.build_lib).resolve() / "kpg" / "runtime" / "native"
        command = [sys.executable, "-m", "kpg.runtime.native.ship", str(target)]
        path = os.pathsep.join(
            [str(ROOT), *filter(None, sys.path)]
        )  # an isolated build's packages are in sys.path
        subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, check=True)


class PlatformDistribution(Distribution):
    """A wheel with machine code is for one platform and one Python."""

    def has_ext_modules(self) -> bool:
        """Whether there is machine code in it."""
        return can_compile()


setup(cmdclass={"build_py": BuildPython}, distclass=PlatformDistribution)
