"""Compiles a package before its programs are measured, as pip does."""

from compileall import compile_dir
from os import PathLike


def compile_package(folder: str | PathLike[str]) -> None:
    """Compiles all files of a package that have changed.

    Where ``PYTHONDONTWRITEBYTECODE`` is set, each program and many workers would
    compile them again: 0.73 instead of 0.38 s for one actor.
    """
    compile_dir(folder, quiet=2)
