"""Frameworks keep to a share from their first use on, and pay nothing before."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys
import threading
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

import pytest
from helpers.frameworks import TENSORFLOW, TORCH, write

from actorlib._features.frameworks.worker import prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Written = Callable[..., None]

LIMITS = {"torch.cuda": 0.25, "tensorflow": 9000.0}
TOLD = ["init", "0: 0.25", "1: 0.25", "allocated"]


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Written]:
    """Writes packages that can be imported as long as the test runs."""
    monkeypatch.syspath_prepend(tmp_path)
    finders = list(sys.meta_path)
    before = set(sys.modules)

    def write_now(*packages: Any) -> None:
        write(tmp_path, *packages)
        importlib.invalidate_caches()

    yield write_now
    sys.meta_path[:] = finders
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("torch", "tensorflow"):
            del sys.modules[name]


def imported(name: str) -> Any:
    return importlib.import_module(name)


def used_torch() -> list[str]:
    """What PyTorch was told until its first use."""
    torch = imported("torch")
    torch.cuda.empty()
    log: list[str] = torch.cuda.log
    return log


def in_threads(work: Callable[..., object], *args: object) -> None:
    """Has eight threads do the same."""
    threads = [threading.Thread(target=work, args=args) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# PyTorch.


@pytest.mark.parametrize(("part", "other"), [("cuda", "xpu"), ("xpu", "cuda")])
def test_torch_when_first_used_then_the_fraction_of_that_part_was_set_before(
    written: Written, part: str, other: str
) -> None:
    written(TORCH)
    prepare({f"torch.{part}": 0.25})

    torch = imported("torch")
    devices = getattr(torch, part)
    assert not devices.is_initialized()  # no device comes up before
    assert devices.log == []
    devices.empty()

    assert devices.log == TOLD
    assert getattr(torch, other).log == []


def test_torch_when_imported_before_then_it_is_told_at_once(written: Written) -> None:
    written(TORCH)
    imported("torch")
    finders = list(sys.meta_path)

    prepare({"torch.cuda": 0.25})

    assert used_torch() == TOLD
    assert sys.meta_path == finders


def test_torch_when_the_user_has_set_a_fraction_then_that_one_counts(
    written: Written,
) -> None:
    written(TORCH)
    prepare({"torch.cuda": 0.25})

    torch = imported("torch")
    torch.cuda.fractions[0] = 0.9  # by its variable, which it reads first
    torch.cuda.empty()
    assert torch.cuda.fractions == {0: 0.9, 1: 0.25}

    torch.cuda.set_per_process_memory_fraction(0.75, 0)  # the program's last word
    assert torch.cuda.fractions == {0: 0.75, 1: 0.25}


@pytest.mark.parametrize("package", ["torch", "tensorflow"])
def test_framework_when_it_is_another_then_it_works_and_the_log_says_so(
    written: Written, caplog: pytest.LogCaptureFixture, package: str
) -> None:
    written({f"{package}/__init__.py": "cuda = object()"})
    prepare(LIMITS)

    assert imported(package).cuda is not None
    words = "this PyTorch has no torch.cuda.set_per" if package == "torch" else "limit"
    assert words in caplog.text


def test_torch_when_it_refuses_the_fraction_then_it_comes_up_all_the_same(
    written: Written, caplog: pytest.LogCaptureFixture
) -> None:
    written(TORCH)
    prepare({"torch.cuda": 0.25})
    imported("torch").cuda.device_count = lambda: 1 / 0

    assert used_torch() == ["init", "allocated"]
    assert "does not limit" in caplog.text
    assert "ZeroDivisionError" in caplog.text


# TensorFlow.


def test_tensorflow_when_first_used_then_the_limit_was_set_before(
    written: Written,
) -> None:
    written(TENSORFLOW)
    prepare(LIMITS)

    tensorflow = imported("tensorflow")
    assert tensorflow.log == []
    tensorflow.constant()

    assert tensorflow.log == ["listed", "GPU:0: [9000]", "init", "allocated"]
    context = imported("tensorflow.python.eager.context").context()
    assert "ensure_initialized" not in vars(context)  # nothing is in the way now


def test_tensorflow_when_the_program_lets_it_grow_then_it_may(
    written: Written,
) -> None:
    written(TENSORFLOW)
    prepare({"tensorflow": 9000.0})

    config = imported("tensorflow").config
    config.set_memory_growth("GPU:0", enable=True)
    imported("tensorflow").constant()

    assert config.growing == ["GPU:0"]
    assert config.limits == {"GPU:0": [9000]}


def test_tensorflow_when_the_program_sets_a_limit_then_that_one_counts(
    written: Written,
) -> None:
    written(TENSORFLOW)
    prepare({"tensorflow": 9000.0})

    config = imported("tensorflow").config
    theirs = config.LogicalDeviceConfiguration(memory_limit=5)
    config.set_logical_device_configuration("GPU:0", [theirs])
    imported("tensorflow").constant()

    assert config.limits == {"GPU:0": [5]}


def test_frameworks_when_threads_begin_them_together_then_all_find_the_limit(
    written: Written,
) -> None:
    written(TENSORFLOW, TORCH)
    prepare(LIMITS)

    tensorflow = imported("tensorflow")
    in_threads(tensorflow.constant)
    in_threads(imported, "torch")

    assert tensorflow.log[:3] == ["listed", "GPU:0: [9000]", "init"]
    assert used_torch() == TOLD


# The finder.


def test_finder_when_all_are_told_then_it_is_gone(written: Written) -> None:
    written(TORCH, TENSORFLOW)
    before = list(sys.meta_path)
    prepare(LIMITS)

    imported("torch")
    assert len(sys.meta_path) == len(before) + 1
    imported("tensorflow")

    assert sys.meta_path == before


def test_finder_when_an_import_fails_then_the_next_one_is_told(
    written: Written,
) -> None:
    written({"torch/__init__.py": "raise ImportError('no library')"})
    prepare({"torch.cuda": 0.25})
    with pytest.raises(ImportError, match="no library"):
        imported("torch")

    written({**TORCH, "torch/__init__.py": f"{TORCH['torch/__init__.py']}\n# longer"})

    assert used_torch() == TOLD


def test_finder_when_there_is_no_framework_then_the_import_fails_as_ever(
    written: Written,
) -> None:
    written()
    prepare(LIMITS)

    with pytest.raises(ModuleNotFoundError, match="No module named 'torch'"):
        imported("torch")
    assert importlib.util.find_spec("tensorflow") is None


def test_module_when_imported_then_it_is_as_if_nobody_had_looked(
    written: Written, tmp_path: Path
) -> None:
    loaders = "loader = __spec__.loader, __loader__"
    written({**TORCH, "torch/__init__.py": f"{TORCH['torch/__init__.py']}\n{loaders}"})
    prepare({"torch.cuda": 0.25})

    spec = importlib.util.find_spec("torch")  # and nobody imports it
    assert spec is not None
    loader: Any = spec.loader
    assert loader.get_filename("torch") == str(tmp_path / "torch" / "__init__.py")
    assert "torch" not in sys.modules

    torch = imported("torch")
    plain = importlib.util.find_spec("torch")
    assert plain is not None
    assert {type(loader) for loader in torch.loader} == {type(plain.loader)}
    assert torch.__spec__.loader is torch.__loader__

    importlib.reload(torch)
    assert used_torch() == TOLD


class _Counting(PathFinder):
    """A finder of somebody's that derives from the usual one."""

    asked: list[str] = []  # noqa: RUF012  # of the class, as finders are classes

    @classmethod
    def find_spec(cls, fullname: str, path: Any = None, target: Any = None) -> Any:
        cls.asked.append(fullname)
        return super().find_spec(fullname, path, target)


def test_finder_when_another_is_behind_it_then_that_one_finds(
    written: Written,
) -> None:
    written(TORCH)
    sys.meta_path.insert(0, _Counting)
    prepare({"torch.cuda": 0.25})

    assert used_torch() == TOLD
    assert "torch" in _Counting.asked


def test_finder_when_somebody_has_taken_it_out_then_the_import_goes_on(
    written: Written,
) -> None:
    written(
        {
            **TORCH,
            "torch/__init__.py": "import sys\nsys.meta_path.pop(0)\n"
            "from torch import cuda, xpu\n",
        }
    )
    prepare({"torch.cuda": 0.25})

    assert used_torch() == TOLD
