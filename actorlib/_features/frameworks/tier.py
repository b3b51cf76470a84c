"""The tier ``"frameworks"``: configures frameworks to take no more than the share.

This needs no rights and imports nothing. Frameworks read their variables when they
start, and the worker sets the other limits after the import of the framework
(``worker``). Each framework limits only its own pool: other allocations of a program
are not limited, and two frameworks in one process have a share each.

The user's own value of a variable takes precedence. Facts and their sources:

* JAX raises if both names of its fraction are set, so one is: the older, which every
  version reads, and which programs set themselves (``generate_pjrt_gpu_plugin_options``
  in jaxlib). The fraction limits its pool with preallocation and without, but not with
  ``XLA_PYTHON_CLIENT_ALLOCATOR=platform``.
* TensorFlow reads from the environment whether to grow, but no limit.
* CuPy reads bytes, or a percentage.
* PyTorch reads a fraction among the options of its allocator (pytorch#161035). Versions
  that do not know it fail, and builds without CUDA may: it is written for versions that
  are known to have it, with CUDA, and only on NVIDIA's devices. The name of the
  variable is the older one, for the same reason as JAX's. The hook sets the fraction in
  all versions; the variable also reaches child processes.

https://docs.jax.dev/en/latest/gpu_memory_allocation.html,
https://docs.cupy.dev/en/stable/reference/environment.html,
https://docs.pytorch.org/docs/stable/notes/cuda.html
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, final

from actorlib._core.engine import override
from actorlib._enforcement.tiers import CONTEXT_MARGIN, OFF, Settings, Tier
from actorlib._options.kinds import UNITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from actorlib._enforcement.tiers import Grant, Site
    from actorlib.accelerators.base import Device, Share
    from actorlib.accelerators.host import Host

CAPPED = {
    "nvidia": ("PyTorch", "JAX", "TensorFlow", "CuPy"),
    "amd": ("PyTorch", "JAX", "TensorFlow", "CuPy"),
    "intel": ("PyTorch",),
}
"""The frameworks that accept a limit, by the family of the device."""

_JAX_FRACTIONS = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION")
_JAX_FRACTION = _JAX_FRACTIONS[1]
_JAX_PREALLOCATE = "XLA_PYTHON_CLIENT_PREALLOCATE"
_JAX_ALLOCATOR = "XLA_PYTHON_CLIENT_ALLOCATOR"
_GROWTH = "TF_FORCE_GPU_ALLOW_GROWTH"
_CUPY = "CUPY_GPU_MEMORY_LIMIT"
_TORCH = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
"""In the order in which PyTorch reads them."""
_TORCH_NAME = _TORCH[1]
_TORCH_UNCACHED = "PYTORCH_NO_CUDA_MEMORY_CACHING"
"""Any value switches off the allocator with the fraction."""
_TORCH_OPTION = "per_process_memory_fraction"
_OTHER_BACKEND = "mallocasync"
_READ = (
    *_JAX_FRACTIONS,
    _JAX_PREALLOCATE,
    _JAX_ALLOCATOR,
    _GROWTH,
    _CUPY,
    *_TORCH,
    _TORCH_UNCACHED,
)
"""The variables that the user may have set."""
KNOWS_OPTION = (2, 13)
"""The oldest release of PyTorch that is known to read the option."""

_MIB = 2**20


class Limits(NamedTuple):
    """The limits of frameworks in a worker, and what they do not limit, for users.

    ``hooks`` are those that the worker sets after the import of a framework: the
    fraction of a device for ``"torch.cuda"`` and ``"torch.xpu"``, MiB for
    ``"tensorflow"``.
    """

    environment: dict[str, str]
    hooks: dict[str, float]
    remarks: tuple[str, ...] = ()


NO_LIMITS = Limits({}, {})


@final
class Frameworks(Tier):
    """The tier ``"frameworks"``."""

    word = "frameworks"
    is_automatic = True

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        path = site.path if site.devices else ()
        self._torch_reads_option = reads_torch_option(site.host, path)

    @override
    def fault(self, device: Device) -> str:
        if device.family in CAPPED:
            return ""
        return f"no framework is known that takes a limit for {device.family} devices"

    @override
    def settings(
        self,
        number: int,
        grant: Grant,
        own: Mapping[str, str],
        environ: Mapping[str, str],
    ) -> Settings:
        if not grant.parts:
            return Settings()
        limits = self._limits(grant, environ)
        return Settings(limits.environment, limits.hooks or None)

    @override
    def remarks(self, grant: Grant, environ: Mapping[str, str]) -> Iterable[str]:
        return self._limits(grant, environ).remarks

    def _limits(self, grant: Grant, environ: Mapping[str, str]) -> Limits:
        tiers = [enforced.tier for enforced in grant.enforced]
        enforced = list(zip(grant.lease.shares, tiers, strict=True))
        return find_limits(
            enforced, environ, torch_reads_option=self._torch_reads_option
        )


def reads_torch_option(host: Host, path: Iterable[str]) -> bool:
    """Whether the PyTorch on the import path of workers reads its fraction.

    It searches the path for the release, and imports nothing.
    """
    for folder in path:
        if not folder.startswith("/"):  # it depends on the worker's folder
            continue
        for place in host.glob(f"{folder}/torch-*.dist-info"):
            release = re.match(r"torch-(\d+)\.(\d+)", place.rpartition("/")[2])
            if release is not None:
                number = int(release[1]), int(release[2])
                has_cuda = bool(host.glob(f"{folder}/torch/lib/libtorch_cuda.so"))
                return has_cuda and number >= KNOWS_OPTION
    return False


def find_limits(
    enforced: Sequence[tuple[Share, Tier]],
    environ: Mapping[str, str],
    *,
    torch_reads_option: bool,
) -> Limits:
    """Returns the limits of frameworks in a process with this environment."""
    shares = [
        (share, tier)
        for share, tier in enforced
        if share.units < UNITS and tier.word != OFF and share.device.family in CAPPED
    ]
    if not shares:
        return NO_LIMITS
    # A lease has one share below a whole device of a kind. If it had more, the limit
    # of a framework would apply to each of them.
    share, tier = min(shares, key=lambda one: _budget(*one)[0])
    fraction, nbytes = _budget(share, tier)
    # Once each: reading the environment of a process is slow.
    own = {name: value for name in _READ if (value := environ.get(name)) is not None}
    environment: dict[str, str] = {}
    hooks: dict[str, float] = {}
    remarks = _remarks(share, nbytes, own)
    if share.device.family == "intel":
        if not _has_torch_option(own):
            hooks["torch.xpu"] = fraction
        return Limits(environment, hooks, remarks)
    if not any(name in own for name in _JAX_FRACTIONS):
        environment[_JAX_FRACTION] = _decimal(fraction)
    if _JAX_PREALLOCATE not in own:
        environment[_JAX_PREALLOCATE] = "false"
    if _GROWTH not in own:
        environment[_GROWTH] = "true"
    if _CUPY not in own:
        percent = f"{_decimal(100 * fraction)}%"
        environment[_CUPY] = percent if nbytes is None else str(nbytes)
    if nbytes is not None:
        hooks["tensorflow"] = max(1, nbytes // _MIB)
    if not _has_torch_option(own):
        hooks["torch.cuda"] = fraction
        if torch_reads_option and share.device.family == "nvidia":
            environment |= _torch_option(own, fraction)
    return Limits(environment, hooks, remarks)


def _budget(share: Share, tier: Tier) -> tuple[float, int | None]:
    """Returns the fraction of a device for frameworks, and its bytes if known."""
    granted, memory = share.nbytes, share.device.memory
    if granted is None or not memory:
        return share.units / UNITS, None
    # If the share is hardly more than a context, half of it is better than nothing.
    nbytes = max(granted - CONTEXT_MARGIN, granted // 2, 1)
    total = granted if tier.shows_share else memory
    return nbytes / total, nbytes


def _torch_option(own: Mapping[str, str], fraction: float) -> dict[str, str]:
    """Appends the fraction to the user's value of the variable."""
    name = next((name for name in _TORCH if own.get(name)), _TORCH_NAME)
    value = own.get(name, "")
    if _OTHER_BACKEND in value.lower():
        return {}  # it is not known to read the option
    option = f"{_TORCH_OPTION}:{_decimal(fraction)}"
    return {name: f"{value.rstrip(', ')},{option}" if value else option}


def _has_torch_option(own: Mapping[str, str]) -> bool:
    return any(_TORCH_OPTION in own.get(name, "") for name in _TORCH)


def _remarks(
    share: Share, nbytes: int | None, own: Mapping[str, str]
) -> tuple[str, ...]:
    """Describes what the limits do not cover."""
    remarks: list[str] = []
    granted = share.nbytes
    if granted is not None and granted <= CONTEXT_MARGIN:
        remarks.append(
            f"the share is {granted // _MIB} MiB, and the context of a process alone "
            f"is thought to take about {CONTEXT_MARGIN // _MIB} MiB"
        )
    is_jax = share.device.family != "intel"
    if is_jax and nbytes is None:
        remarks.append(
            "TensorFlow has no limit, as the memory of the device is unknown"
        )
    if is_jax and own.get(_JAX_ALLOCATOR, "").lower() == "platform":
        remarks.append(f"JAX has no limit with {_JAX_ALLOCATOR}=platform")
    if _TORCH_UNCACHED in own:
        remarks.append(f"PyTorch has no limit with {_TORCH_UNCACHED}")
    names = [n for n in (*_JAX_FRACTIONS, _CUPY) if is_jax and n in own]
    names += [n for n in _TORCH if _TORCH_OPTION in own.get(n, "")]
    if names:
        remarks.append(f"{', '.join(names)} is as it was set")
    return tuple(remarks)


def _decimal(number: float) -> str:
    """Formats six places at most, and never ``1e-05``, which some cannot read."""
    return f"{number:.6f}".rstrip("0").rstrip(".")
