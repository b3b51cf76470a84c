"""Imports NumPy in the template after a worker has done so, for later workers.

An import of NumPy takes tens of milliseconds of CPU. A worker that begins one notifies
the template through a byte of shared memory and a signal. The template then imports
NumPy, too, in idle time or before the next fork, and puts the modules aside. A worker
that imports NumPy later gets these modules. For other workers nothing changes: their
``sys.modules`` has no NumPy. As long as no worker imports NumPy, this costs nothing;
afterwards a fork takes a few tenths of a millisecond more, and half a megabyte.

The result is the same as that of a normal import:

* The same file. The worker's own ``sys.path`` is searched. If it leads to another
  NumPy, the modules that were put aside are dropped.
* The same number of BLAS threads. NumPy's wheels contain an OpenBLAS, which starts a
  thread per CPU when it is loaded unless a variable says otherwise. In the template it
  is loaded with one thread, because a fork has only one. When a worker imports NumPy,
  its variables are read again, as the user's code may have set them, and the threads
  are started.
* Random numbers of its own.

If the BLAS is another one, or is not where the wheels have it, nothing is imported. One
difference remains: variables that NumPy reads when it is loaded, such as those that
switch off CPU instructions, have to be set in the owner. A worker with other values
gets a warning.
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
_THREAD_VARIABLES = (_THREADS, ("GOTO_NUM_THREADS",), ("OMP_NUM_THREADS",))
"""The variables that OpenBLAS reads. Of each group the first that is set counts, and of
the groups the first with a number above 0 (``driver/others/openblas_env.c`` and
``memory.c`` in its sources). OpenBLAS has functions that read them, but NumPy 2.5 does
not export them.
"""
_READ_ONCE = ("NPY_", "NUMPY_", "OPENBLAS_CORETYPE")
_OPENMP = 2


class OpenBlas(NamedTuple):
    """The functions of an OpenBLAS.

    Attributes:
        processors: Returns the maximum number of threads.
        set_threads: Sets the number of threads, and starts them.
    """

    processors: Callable[[], int]
    set_threads: Callable[[int], object]

    def start_threads(self, environ: Mapping[str, str]) -> None:
        """Starts as many threads as an OpenBLAS that is loaded now would start."""
        at_most = self.processors()
        number = min(configured_threads(environ) or at_most, at_most)
        if number > 1:
            self.set_threads(number)


def configured_threads(environ: Mapping[str, str]) -> int:
    """Reads the configured number of threads of an OpenBLAS; 0 if not configured."""
    for names in _THREAD_VARIABLES:
        text = next((environ[name] for name in names if name in environ), "")
        # C ignores what follows the number, as in "4,2".
        number = re.match(r"\s*\+?(\d+)", text, re.ASCII)
        if number is not None and int(number[1]) > 0:
            return int(number[1])
    return 0


def openblas_of(library: Any) -> OpenBlas | None:
    """Returns the functions of a loaded OpenBLAS.

    Their names have a prefix and a suffix if several builds may be in one process. None
    if it is another library, or if its threads are those of OpenMP.
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
    """Notices that a worker imports NumPy, and provides it after the template has it.

    It is the first finder of ``sys.meta_path`` in the template and in all its forks,
    and finds NumPy only.
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
        """Notices imports of NumPy from now on, in this process and in its forks."""
        if _NAME in sys.modules:  # preloaded at the user's request
            self._has_begun = True
        else:
            sys.meta_path.insert(0, self)

    def steps(self) -> list[Callable[[], object]]:
        """Creates the steps that import NumPy, once a worker has imported it."""
        if self._has_begun or not self._notice[0]:
            return []
        self._has_begun = True
        return [self._load_blas, self._import]

    def _load_blas(self) -> None:
        """Loads the BLAS alone; after the import of NumPy it could not be refused."""
        self._uninstall()
        spec = PathFinder.find_spec(_NAME)
        if spec is None or spec.origin is None:
            return
        packages = os.path.dirname(os.path.dirname(spec.origin))  # noqa: PTH120  # no pathlib in the template
        with suppress(OSError), _one_thread():
            files = os.listdir(f"{packages}/numpy.libs")  # noqa: PTH208
            names = [name for name in files if "openblas" in name]
            if len(names) == 1:
                self._blas = _load(f"{packages}/numpy.libs/{names[0]}")
                self._origin = spec.origin

    def _import(self) -> None:
        if self._blas is None:
            return
        # A worker gets the error itself, because then it finds no modules here.
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
        """Returns the spec of the NumPy that was put aside; see importlib."""
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
            self._leave()  # another NumPy, whose BLAS may still be the same file
            return None
        spec.loader = cast("Any", self)
        return spec

    def _give_notice(self) -> None:
        self._uninstall()
        self._notice[0] = 1
        if os.getppid() == self._template:
            with suppress(OSError):  # it also checks before the next fork
                os.kill(self._template, signal.SIGCHLD)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Returns the module that was put aside; see importlib."""
        del spec
        self._leave()
        sys.modules.update(self._modules)
        module = self._modules[_NAME]
        self._spec = module.__spec__
        if _RANDOM in self._modules:  # before NumPy 2, an import loads it
            cast("Any", self._modules[_RANDOM]).seed()
        if self._variables != _variables_read_once():
            warnings.warn(_TOO_LATE, RuntimeWarning, stacklevel=2)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Does nothing: the template has executed the module; see importlib."""
        module.__spec__ = self._spec

    def _leave(self) -> None:
        self._uninstall()
        if self._blas is not None:
            self._blas.start_threads(os.environ)

    def _uninstall(self) -> None:
        with suppress(ValueError):  # two threads may import at once
            sys.meta_path.remove(self)


_TOO_LATE = (
    "a variable that NumPy reads when it is loaded (NPY_..., OPENBLAS_CORETYPE) has no "
    "effect here: NumPy was imported before, for all workers. Set it where the runtime "
    "is started, or start the runtime with init(preload=())"
)


def _variables_read_once() -> dict[str, str]:
    return {
        name: value for name, value in os.environ.items() if name.startswith(_READ_ONCE)
    }


@contextmanager
def _one_thread() -> Generator[None]:
    """Makes an OpenBLAS that is loaded in this context start no threads."""
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
    """Loads an OpenBLAS; unloads a library that cannot be used."""
    before = _thread_count()
    library = ctypes.CDLL(path)
    blas = openblas_of(library)
    if blas is not None and _thread_count() == before:
        return blas
    # Otherwise a later import would find it loaded, with one thread.
    _ctypes.dlclose(library._handle)  # noqa: SLF001  # ctypes has no other way
    return None


def _thread_count() -> int:
    return len(os.listdir("/proc/self/task"))  # noqa: PTH208  # no pathlib in the template
