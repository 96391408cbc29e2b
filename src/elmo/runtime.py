"""What differs between machines: cores, memory, devices, how processes start, what is installed.

Nothing here needs torch, so a command can ask before it imports it.
"""

from __future__ import annotations

import ctypes
import importlib
import multiprocessing
import os
import platform
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from elmo.errors import UserError

if TYPE_CHECKING:
    from multiprocessing.context import ForkContext

    import torch

# Limits of the control group (container) this process runs in; on Linux only.
_CPU_LIMIT = Path("/sys/fs/cgroup/cpu.max")
_MEMORY_LIMIT = Path("/sys/fs/cgroup/memory.max")
_ASSUMED_MEMORY = 8 << 30  # where the system does not tell

MOST_THREADS = 1024  # more OpenMP threads than that end a process with a segmentation fault

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # malloc.h of the GNU C library
_LARGE = 1 << 30


def cpu_cores() -> int:
    """Cores that this process may use: its affinity mask, cut to the container's CPU quota.

    A quota of 1.5 cores counts as one: a second thread would be throttled half of the time.
    """
    if hasattr(os, "sched_getaffinity"):  # Linux; macOS and Windows have no such call
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    with suppress(OSError, ValueError):  # no control group, or "max 100000": no limit
        quota, period = map(int, _CPU_LIMIT.read_text().split())
        cores = min(cores, quota // period)
    return max(1, cores)


def machine_memory() -> int:
    """Bytes of memory of this machine, or what the container may use of it."""
    memory = _physical_memory()
    with suppress(OSError, ValueError):  # no control group, or "max": no limit
        memory = min(memory, int(_MEMORY_LIMIT.read_text()))
    return memory


def _physical_memory() -> int:
    if sys.platform == "win32":
        # MEMORYSTATUSEX: two 32-bit fields (its own size, the load), then seven 64-bit ones.
        status = (ctypes.c_uint64 * 8)()
        ctypes.cast(status, ctypes.POINTER(ctypes.c_uint32))[0] = ctypes.sizeof(status)
        if ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
            return status[1]
    elif hasattr(os, "sysconf"):
        with suppress(OSError, ValueError):  # a name that this system does not know
            return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return _ASSUMED_MEMORY


def fork_context() -> ForkContext | None:
    """Start worker processes that share what the parent has computed; None where that is unsafe.

    On macOS the system's own libraries break in a forked child, and Windows has no fork.
    """
    return multiprocessing.get_context("fork") if sys.platform == "linux" else None


def after_fork_in_child(callback: Callable[[], object]) -> None:
    """Call `callback` in every forked child; never where the system does not fork."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=callback)


def keep_freed_memory() -> bool:
    """Let the process keep freed memory and use it again; false where that cannot be set.

    A training step allocates and frees hundreds of tensors of a few megabytes. By default the GNU
    C library returns each to the system and asks for it again, page by page: up to a quarter of
    the training time (docs/experiments.md). Commands call this; a program that imports the package
    decides for itself, since the setting is for the whole process.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # another C library, such as musl
        return False
    # One arena: only the first can hold large blocks, and the threads take turns anyway.
    settings = ((_MMAP_THRESHOLD, _LARGE), (_TRIM_THRESHOLD, _LARGE), (_ARENA_MAX, 1))
    return all(mallopt(name, value) == 1 for name, value in settings)


def require_device(device: str) -> str:
    """The device, if it works."""
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, ImportError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"device {device!r} cannot be used here: {reason}") from None
    if str(device).partition(":")[0] == "meta":
        raise UserError("device 'meta' cannot be used here: it computes nothing; use cpu or cuda")
    return device


def set_device(device: str, threads: int | None) -> None:
    """Make sure that the device works, and use that many CPU threads, or one per core.

    Processes that torchrun started on one machine share its cores.
    """
    import torch

    require_device(device)
    if threads is not None and not 1 <= threads <= MOST_THREADS:
        raise UserError(f"--threads: expected 1 to {MOST_THREADS:,}, got {threads:,}")
    value = os.environ.get("LOCAL_WORLD_SIZE", "1")
    if not (value.isascii() and value.isdigit() and int(value)):
        raise UserError(f"LOCAL_WORLD_SIZE: expected a number of processes, got {value!r:.60}")
    processes = int(value)
    torch.set_num_threads(threads or max(1, cpu_cores() // processes))


def compute_precision(wanted: str, device: torch.device) -> torch.dtype:
    """The dtype of matrix products: for "auto", bf16 where the hardware multiplies it."""
    import torch

    if wanted not in ("fp32", "bf16", "auto"):
        raise UserError(f"dtype: expected float32, bfloat16 or auto, got {wanted!r}")
    if wanted == "fp32" or (wanted == "auto" and not has_bf16_units(device)):
        return torch.float32
    return torch.bfloat16


def has_bf16_units(device: torch.device) -> bool:
    """Whether this device multiplies bf16 matrices in hardware, and so faster than fp32.

    Measured on two cores of an AMD EPYC with AVX512_BF16 and no AMX, side by side: products 2 to 3
    times as fast, training steps of the default model 1.6 times.
    """
    import torch

    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    ask: Callable[[], dict[str, Any]] = getattr(torch.cpu, "get_capabilities", dict)
    capabilities: dict[str, Any] = ask()  # nothing, where torch is too old to tell
    return bool(capabilities.get("amx_bf16") or capabilities.get("avx512_bf16"))


def processor_name() -> str:
    """The model of the processor; the architecture where the system does not tell the model."""
    if (cpuinfo := Path("/proc/cpuinfo")).is_file():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def require_extra(module: str, extra: str) -> ModuleType:
    """Import a module that belongs to an optional extra, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        raise UserError(
            f"this needs the Python package {error.name!r}, which is not installed; "
            f"run: pip install 'elmo-embeddings[{extra}]'"
        ) from None
