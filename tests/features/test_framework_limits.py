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


# PyTorch.


def test_torch_when_first_used_then_the_fraction_was_set_before(
    written: Written,
) -> None:
    written(TORCH)
    prepare({"torch.cuda": 0.25})

    torch = imported("torch")
    torch.cuda.empty()

    assert torch.cuda.log == ["init", "0: 0.25", "1: 0.25", "allocated"]
    assert torch.xpu.log == []


def test_torch_when_never_used_then_no_device_comes_up(written: Written) -> None:
    written(TORCH)
    prepare(LIMITS)

    torch = imported("torch")

    assert not torch.cuda.is_initialized()
    assert torch.cuda.log == []


def test_torch_when_of_intel_then_its_part_for_that_is_told(written: Written) -> None:
    written(TORCH)
    prepare({"torch.xpu": 0.5})

    torch = imported("torch")
    torch.xpu.empty()

    assert torch.xpu.log == ["init", "0: 0.5", "1: 0.5", "allocated"]
    assert torch.cuda.log == []


def test_torch_when_imported_before_then_it_is_told_at_once(written: Written) -> None:
    written(TORCH)
    torch = imported("torch")
    finders = list(sys.meta_path)

    prepare({"torch.cuda": 0.25})
    torch.cuda.empty()

    assert torch.cuda.log == ["init", "0: 0.25", "1: 0.25", "allocated"]
    assert sys.meta_path == finders


def test_torch_when_it_has_a_fraction_already_then_that_one_counts(
    written: Written,
) -> None:
    written(TORCH)
    prepare({"torch.cuda": 0.25})

    torch = imported("torch")
    torch.cuda.fractions[0] = 0.9  # by its variable, which it reads first
    torch.cuda.empty()

    assert torch.cuda.fractions == {0: 0.9, 1: 0.25}


def test_torch_when_the_program_sets_a_fraction_then_it_has_the_last_word(
    written: Written,
) -> None:
    written(TORCH)
    prepare({"torch.cuda": 0.25})

    torch = imported("torch")
    torch.cuda.set_per_process_memory_fraction(0.75, 0)

    assert torch.cuda.fractions == {0: 0.75, 1: 0.25}


def test_torch_when_it_cannot_be_limited_then_it_works_and_the_log_says_so(
    written: Written, caplog: pytest.LogCaptureFixture
) -> None:
    written({"torch/__init__.py": "cuda = object()"})
    prepare({"torch.cuda": 0.25})

    assert imported("torch").cuda is not None
    assert "this PyTorch has no torch.cuda.set_per_process" in caplog.text


def test_torch_when_it_refuses_the_fraction_then_it_comes_up_all_the_same(
    written: Written, caplog: pytest.LogCaptureFixture
) -> None:
    written(TORCH)
    prepare({"torch.cuda": 0.25})
    torch = imported("torch")
    torch.cuda.device_count = lambda: 1 / 0

    torch.cuda.empty()

    assert torch.cuda.log == ["init", "allocated"]
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


def test_tensorflow_when_used_again_then_nothing_of_ours_is_in_the_way(
    written: Written,
) -> None:
    written(TENSORFLOW)
    prepare({"tensorflow": 9000.0})

    imported("tensorflow").constant()

    context = imported("tensorflow.python.eager.context").context()
    assert "ensure_initialized" not in vars(context)


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


def test_tensorflow_when_it_is_another_then_it_works_and_the_log_says_so(
    written: Written, caplog: pytest.LogCaptureFixture
) -> None:
    written({"tensorflow/__init__.py": "answer = 42"})
    prepare({"tensorflow": 9000.0})

    assert imported("tensorflow").answer == 42
    assert "does not limit" in caplog.text


def test_tensorflow_when_threads_begin_it_together_then_all_find_the_limit(
    written: Written,
) -> None:
    written(TENSORFLOW)
    prepare({"tensorflow": 9000.0})
    tensorflow = imported("tensorflow")
    threads = [threading.Thread(target=tensorflow.constant) for _ in range(8)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert tensorflow.log[:3] == ["listed", "GPU:0: [9000]", "init"]


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
    torch = imported("torch")
    torch.cuda.empty()

    assert torch.cuda.log[1:3] == ["0: 0.25", "1: 0.25"]


def test_finder_when_there_is_no_framework_then_the_import_fails_as_ever(
    written: Written,
) -> None:
    written()
    prepare(LIMITS)

    with pytest.raises(ModuleNotFoundError, match="No module named 'torch'"):
        imported("torch")
    assert importlib.util.find_spec("tensorflow") is None


def test_module_when_imported_then_it_is_as_if_nobody_had_looked(
    written: Written,
) -> None:
    written(
        {
            **TORCH,
            "torch/__init__.py": f"{TORCH['torch/__init__.py']}\n"
            "loader = __spec__.loader, __loader__",
        }
    )
    prepare({"torch.cuda": 0.25})

    torch = imported("torch")
    plain = importlib.util.find_spec("torch")

    assert plain is not None
    assert {type(loader) for loader in torch.loader} == {type(plain.loader)}
    assert torch.__spec__.loader is torch.__loader__


def test_module_when_looked_for_and_not_imported_then_its_loader_answers(
    written: Written, tmp_path: Path
) -> None:
    written(TORCH)
    prepare({"torch.cuda": 0.25})

    spec = importlib.util.find_spec("torch")

    assert spec is not None
    loader: Any = spec.loader
    assert loader.get_filename("torch") == str(tmp_path / "torch" / "__init__.py")
    assert "torch" not in sys.modules


def test_module_when_reloaded_then_it_is_there_still(written: Written) -> None:
    written(TORCH)
    prepare({"torch.cuda": 0.25})

    torch = importlib.reload(imported("torch"))
    torch.cuda.empty()

    assert torch.cuda.log == ["init", "0: 0.25", "1: 0.25", "allocated"]


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

    torch = imported("torch")
    torch.cuda.empty()

    assert "torch" in _Counting.asked
    assert torch.cuda.log[1:3] == ["0: 0.25", "1: 0.25"]


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

    torch = imported("torch")
    torch.cuda.empty()

    assert torch.cuda.log[1:3] == ["0: 0.25", "1: 0.25"]


def test_torch_when_threads_import_it_together_then_it_is_told_once(
    written: Written,
) -> None:
    written(TORCH)
    prepare({"torch.cuda": 0.25})
    threads = [threading.Thread(target=imported, args=["torch"]) for _ in range(8)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch = imported("torch")
    torch.cuda.empty()

    assert torch.cuda.log == ["init", "0: 0.25", "1: 0.25", "allocated"]
