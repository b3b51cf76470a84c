"""Compiles the hottest files into a wheel, where there is a compiler.

A file is compiled if a ``.pxd`` stands beside it, which gives types in C to its
attributes and functions. The ``.py`` is the only source: it is in every wheel, and runs
where nothing was compiled and under ``ACTORLIB_PURE=1``. With that set for the build,
or where anything about compiling fails, the wheel is the pure one. An editable
installation is never compiled, as what is edited there has to run.

``python hatch_build.py`` compiles in place, for a copy that is thrown away: an old
extension beside a newer ``.py`` is what would be imported.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sysconfig
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # it compiles in place
    BuildHookInterface = object

PACKAGE = "actorlib"
_DIRECTIVES = {
    "language_level": 3,
    # Annotations are for type checkers alone, as without a compiler: an int that came
    # where a float may stand is to stay an int.
    "annotation_typing": False,
    # What is not there any more is an AttributeError, and no crash.
    "nonecheck": True,
}
# A class of C has no Python class for its first base, and type checkers alone need it.
_GENERIC = re.compile(r"^(class \w+)\(Generic\[.*\]\):$", re.MULTILINE)


class CompilingHook(BuildHookInterface):
    """Adds compiled files to a wheel; see hatchling."""

    PLUGIN_NAME = "custom"
    _folder: tempfile.TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compiles them, or leaves the wheel a pure one."""
        if version == "editable" or not is_wanted():
            return
        self._folder = tempfile.TemporaryDirectory()
        try:
            made = compile_into(Path(self._folder.name), Path(self.root))
        except (Exception, SystemExit) as error:  # noqa: BLE001  # what compilers do
            self.app.display_warning(f"built without compiled files: {error}")
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        for file in made:
            build_data["force_include"][str(file)] = str(
                file.relative_to(self._folder.name)
            )

    def finalize(self, *_: object) -> None:
        """Removes what was compiled."""
        if self._folder is not None:
            self._folder.cleanup()


def is_wanted() -> bool:
    """Whether compiled files are wanted, and may bring anything."""
    return platform.python_implementation() == "CPython" and not (
        os.environ.get("ACTORLIB_PURE", "0") not in {"", "0"}
        or sysconfig.get_config_var("Py_GIL_DISABLED")
    )


def compile_into(folder: Path, root: Path) -> Iterable[Path]:
    """Compiles the files that have types in C; gives the extensions, where they lie.

    Raises:
        Exception: Whatever stood in the way.
        SystemExit: Likewise, as compilers do it.
    """
    from Cython.Build import cythonize  # noqa: PLC0415  # a pure wheel needs neither
    from setuptools import Distribution, Extension  # noqa: PLC0415  # likewise

    typed = sorted((root / PACKAGE).rglob("*.pxd"))
    # All of it, as Cython looks for packages by their files.
    shutil.copytree(root / PACKAGE, folder / PACKAGE)
    sources = [(folder / file.relative_to(root)).with_suffix(".py") for file in typed]
    for source in sources:
        text = source.read_text(encoding="utf-8")
        source.write_text(_GENERIC.sub(r"\1:", text), encoding="utf-8")
    here = Path.cwd()
    os.chdir(folder)  # paths in tracebacks begin with the package's name
    try:
        paths = [source.relative_to(folder) for source in sources]
        extensions = cythonize(
            [
                Extension(
                    ".".join(path.with_suffix("").parts),
                    [str(path)],
                    extra_compile_args=["-O1", "-g0"],
                )
                for path in paths
            ],
            compiler_directives=_DIRECTIVES,
            quiet=True,
        )
        command = Distribution({"ext_modules": extensions}).get_command_obj("build_ext")
        command.build_lib = str(folder)
        command.build_temp = str(folder / "build")
        command.parallel = os.cpu_count() or 1
        command.ensure_finalized()
        command.run()
    finally:
        os.chdir(here)
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    return [source.with_suffix(suffix) for source in sources]


def main() -> None:
    """Compiles in place."""
    root = Path(__file__).resolve().parent
    with tempfile.TemporaryDirectory() as folder:
        for file in compile_into(Path(folder), root):
            shutil.copy(file, root / file.relative_to(folder))


if __name__ == "__main__":
    main()
