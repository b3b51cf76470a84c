"""Imports NumPy in the template once a worker has done so, for those that come later.

An import of NumPy takes tens of milliseconds of CPU. A worker that begins one tells the
template, by a byte of memory that they share and a signal, and the template imports it
too, in idle time or before the next fork. It puts the modules aside, and a worker that
imports NumPy finds them. To one that does not, nothing has changed: its ``sys.modules``
has nothing of it. While no worker needs NumPy, none pays for it: with it a fork takes
some tenths of a millisecond more, and half a megabyte.

What a worker finds is what it would have imported itself:

* The same file. Its own ``sys.path`` is searched, and where that leads to another NumPy
  the one that was put aside is forgotten.
* As many threads of the BLAS. NumPy's wheels bring an OpenBLAS, which starts one for
  each CPU when it is loaded, unless a variable says otherwise. In the template it is
  loaded with one thread, the main one: a fork takes no other along. When a worker
  imports NumPy, its variables are read anew, as the line before may have set them, and
  its threads are started.
* Random numbers of its own.

Where the BLAS is another one, or not where the wheels have it, nothing is imported.
What remains: variables that are read once, when NumPy is loaded, as those that switch
off instructions of the CPU, have to be the owner's. A worker with others is warned.
"""

from __future__ import annotations

import _ctypes
import ctypes
import importlib
import itertools
import mmap
import os
import re
import signal
import sys
import warnings
from contextlib import contextmanager, suppress
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_NAME = "numpy"
_RANDOM = "numpy.random"
_THREADS = ("OPENBLAS_NUM_THREADS", "OPENBLAS_DEFAULT_NUM_THREADS")
_SAYING_THREADS = (_THREADS, ("GOTO_NUM_THREADS",), ("OMP_NUM_THREADS",))
"""The variables that an OpenBLAS reads: of each group the first that is set counts, and
of the groups the first that says a number above 0 (``driver/others/openblas_env.c`` and
``memory.c`` in its sources). It has functions that read them, but those of NumPy 2.5
are not to be seen from outside.
"""
_READ_ONCE = ("NPY_", "NUMPY_", "OPENBLAS_CORETYPE")
_OPENMP = 2


class OpenBlas(NamedTuple):
    """Holds the functions of an OpenBLAS.

    Attributes:
        processors: Says how many threads there are at most.
        set_threads: Has it use so many, and start them.
    """

    processors: Callable[[], int]
    set_threads: Callable[[int], object]

    def start_threads(self, environ: Mapping[str, str]) -> None:
        """Starts as many threads as there would be if it were loaded now.

        Args:
            environ: The variables of this process.
        """
        at_most = self.processors()
        number = min(threads_said(environ) or at_most, at_most)
        if number > 1:
            self.set_threads(number)


def threads_said(environ: Mapping[str, str]) -> int:
    """Reads how many threads an OpenBLAS is to have; 0 if nothing says so.

    Args:
        environ: The variables of a process.
    """
    for names in _SAYING_THREADS:
        text = next((environ[name] for name in names if name in environ), "")
        # As C reads a number: what follows it, as in "4,2", does not count.
        number = re.match(r"\s*\+?(\d+)", text, re.ASCII)
        if number is not None and int(number[1]) > 0:
            return int(number[1])
    return 0


def openblas_of(library: Any) -> OpenBlas | None:
    """Finds the functions of an OpenBLAS.

    What is put before and behind their names keeps several builds apart that are in one
    process.

    Args:
        library: A library that is loaded.

    Returns:
        None if it is something else, or one whose threads are those of OpenMP.
    """
    for before, behind in itertools.product(("scipy_", ""), ("64_", "")):
        with suppress(AttributeError):
            if getattr(library, f"{before}openblas_get_parallel{behind}")() == _OPENMP:
                return None
            return OpenBlas(
                getattr(library, f"{before}openblas_get_num_procs{behind}"),
                getattr(library, f"{before}openblas_set_num_threads{behind}"),
            )
    return None


class SharedNumpy:
    """Notices that workers import NumPy, and gives it to them once the template has it.

    For that it is the first that Python asks where a module is, in the template and in
    all its forks. It has an answer for NumPy alone.
    """

    def __init__(self) -> None:
        self._template = os.getpid()
        self._notice = mmap.mmap(-1, 1)
        self._has_begun = False
        self._blas: OpenBlas | None = None
        self._origin = ""
        self._modules: dict[str, ModuleType] = {}
        self._variables: dict[str, str] = {}
        self._spec: ModuleSpec | None = None

    # In the template.

    def install(self) -> None:
        """Notices from now on who imports NumPy, in this process and in its forks."""
        if _NAME in sys.modules:  # by a preload: that is the user's word
            self._has_begun = True
        else:
            sys.meta_path.insert(0, self)

    def steps(self) -> list[Callable[[], object]]:
        """Makes the steps that import it, once a worker has; nothing before and after.

        Each is done once, in this order.
        """
        if self._has_begun or not self._notice[0]:
            return []
        self._has_begun = True
        return [self._load_blas, self._import]

    def _load_blas(self) -> None:
        """Loads the BLAS alone: behind an import it would be too late to refuse it."""
        self._uninstall()
        spec = PathFinder.find_spec(_NAME)
        if spec is None or spec.origin is None:
            return
        packages = os.path.dirname(os.path.dirname(spec.origin))  # noqa: PTH120  # no pathlib in the template
        with suppress(OSError), _one_thread():
            found = os.listdir(f"{packages}/numpy.libs")  # noqa: PTH208  # likewise
            names = [name for name in found if "openblas" in name]
            if len(names) == 1:
                self._blas = _load(f"{packages}/numpy.libs/{names[0]}")
                self._origin = spec.origin

    def _import(self) -> None:
        if self._blas is None:
            return
        # A worker that imports it is told of an error: to it nothing is found here.
        with suppress(Exception), _one_thread():
            importlib.import_module(_NAME)
        own = [name for name in sys.modules if name.partition(".")[0] == _NAME]
        modules = {name: sys.modules.pop(name) for name in own}
        if _NAME in modules:
            self._modules = modules
        self._variables = _variables_read_once()
        sys.meta_path.insert(0, self)

    # In a worker.

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> ModuleSpec | None:
        """Finds NumPy if it is the one that was put aside; see importlib."""
        del path, target
        if name != _NAME:
            return None
        if self._blas is None:
            self._give_notice()
            return None
        spec = PathFinder.find_spec(name)
        if spec is None:
            return None
        if spec.origin != self._origin or not self._modules:
            self._leave()  # another one, whose BLAS may still be the same file
            return None
        spec.loader = cast("Any", self)
        return spec

    def _give_notice(self) -> None:
        self._uninstall()
        self._notice[0] = 1
        if os.getppid() == self._template:
            with suppress(OSError):  # it looks when the next worker is asked for
                os.kill(self._template, signal.SIGCHLD)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Gives back what was put aside; see importlib."""
        del spec
        self._leave()
        sys.modules.update(self._modules)
        module = self._modules[_NAME]
        self._spec = module.__spec__
        if _RANDOM in self._modules:  # before NumPy 2 an import brings it along
            cast("Any", self._modules[_RANDOM]).seed()
        if self._variables != _variables_read_once():
            warnings.warn(_TOO_LATE, RuntimeWarning, stacklevel=2)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Leaves it as it is: it was imported in the template; see importlib."""
        module.__spec__ = self._spec

    def _leave(self) -> None:
        self._uninstall()
        if self._blas is not None:
            self._blas.start_threads(os.environ)

    def _uninstall(self) -> None:
        with suppress(ValueError):  # two threads may look for it at once
            sys.meta_path.remove(self)


_TOO_LATE = (
    "a variable that NumPy reads when it is loaded (NPY_..., OPENBLAS_CORETYPE) has no "
    "effect here: NumPy was imported before, for all workers. Set it where the runtime "
    "is started, or start that with init(preload=())"
)


def _variables_read_once() -> dict[str, str]:
    return {
        name: value for name, value in os.environ.items() if name.startswith(_READ_ONCE)
    }


@contextmanager
def _one_thread() -> Generator[None]:
    """Has an OpenBLAS that is loaded meanwhile start no threads."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _load(path: str) -> OpenBlas | None:
    """Loads an OpenBLAS; nothing is left of one that cannot be used.

    Raises:
        OSError: It is no library.
    """
    before = _thread_count()
    library = ctypes.CDLL(path)
    blas = openblas_of(library)
    if blas is not None and _thread_count() == before:
        return blas
    # Or who imports it later would find it loaded, with one thread.
    _ctypes.dlclose(library._handle)  # noqa: SLF001  # ctypes has no other way
    return None


def _thread_count() -> int:
    return len(os.listdir("/proc/self/task"))  # noqa: PTH208  # no pathlib in the template
