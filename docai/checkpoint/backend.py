"""MLX on this machine: whether it can be imported, on what it computes, how much memory there is."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

from docai.errors import DependencyMissing, LimitExceeded

# MLX's Linux wheels carry a reference BLAS. With one of these in the process before, float32 products on a CPU are
# about 30 times as fast (measured: 1024^3 at 83 instead of 2.8 GFLOP/s on two cores).
_BLAS = ("libopenblas.so.0", "libopenblas.so")
# On CUDA MLX keeps plans by the shapes of arrays, and gives up for good once a process has met some hundred of them, as
# any does that reads documents: their pictures are of all sizes. Without the check it forgets the oldest plans.
_MANY_SHAPES = ("MLX_ENABLE_CACHE_THRASHING_CHECK", "0")
_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@lru_cache(maxsize=1)
def preload_blas() -> str | None:
    """Load the system's OpenBLAS so that MLX finds its functions before its own; its name, None where there is none.

    It has to happen before `mlx.core` is imported. DOCAI_BLAS=none leaves it out; any other value is a library to load.
    """
    wanted = os.environ.get("DOCAI_BLAS")
    if not sys.platform.startswith("linux") or wanted == "none":
        return None
    for name in (wanted,) if wanted else _BLAS:
        with contextlib.suppress(OSError):
            ctypes.CDLL(name, ctypes.RTLD_GLOBAL)
            return name
    if wanted:
        raise DependencyMissing(f"DOCAI_BLAS={wanted}: cannot be loaded; expected a BLAS library, or none")
    return None


def require_mlx() -> Any:
    """The module `mlx.core`. Raises DependencyMissing with what to install."""
    preload_blas()
    os.environ.setdefault(*_MANY_SHAPES)
    try:
        import mlx.core as mx
    except ImportError as error:
        raise DependencyMissing(f"models need MLX, which {_why(error)}: {_remedy()}") from error
    return mx


def _why(error: ImportError) -> str:
    gone = isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] == "mlx"
    return "is not installed" if gone and "mlx" not in sys.modules else f"does not load ({error})"


def _remedy() -> str:
    system = platform.system()
    if (system, platform.machine()) == ("Darwin", "arm64"):
        return "pip install mlx"
    if system == "Linux":
        return "pip install 'docai[cpu]', or 'docai[cuda13]' or 'docai[cuda12]' for an NVIDIA GPU"
    return "it has no build for this machine; docai ocr works without it, with its embedded engine"


def on_gpu() -> bool:
    mx = require_mlx()
    return bool(mx.default_device() == mx.gpu)


def device_name() -> str:
    """As in `Apple M4 Max (metal)` or `AMD EPYC (cpu)`."""
    mx = require_mlx()
    kind = "cpu" if not on_gpu() else "metal" if mx.metal.is_available() else "cuda"
    return f"{mx.device_info().get('device_name', 'unknown')} ({kind})"


def total_memory() -> int:
    """Bytes that a model can use at most: of the GPU, or of the machine or container."""
    if on_gpu():
        info = require_mlx().device_info()
        size = info.get("max_recommended_working_set_size") or info.get("total_memory") or info.get("memory_size")
        if size:
            return int(size)
    return host_memory()


def host_memory() -> int:
    """Bytes of memory of this machine, or of the container that this runs in."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _CGROUPS:
        with contextlib.suppress(OSError, ValueError):
            sizes.append(int(Path(path).read_text()))
    return min(sizes)


def free_memory() -> int:
    """Bytes that a model can use now."""
    if on_gpu():
        mx = require_mlx()
        free = mx.device_info().get("free_memory")  # of CUDA; what MLX keeps for itself can be used again
        return int(free) + mx.get_cache_memory() if free else total_memory() - int(mx.get_active_memory())
    return min(host_memory(), _available() or host_memory())


def _available() -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def check_memory(needed: int, what: str) -> None:
    """Raise LimitExceeded where `needed` bytes of weights cannot be had, and say how much could."""
    free, total = free_memory(), total_memory()
    if needed > min(free, total):
        raise LimitExceeded(
            f"{what} needs {in_bytes(needed)} of memory for its weights, but {in_bytes(free)} of {in_bytes(total)} are "
            f"free; weights up to {in_bytes(int(free * 0.9))} would fit, such as a 4-bit or 8-bit export"
        )


def in_bytes(count: int) -> str:
    """As in 3.2 GB."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}" if count < 1000 * size else f"{count / size:.0f} {unit}"
    return f"{count} bytes"


def cache_folder() -> Path:
    """Where models from the hub are kept; the same as that of huggingface_hub."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)
