"""How much memory there is; and what was freed stays with the process, to be used again.

A step takes and frees tensors of some megabytes by the hundred. The C library would give each of
them back to the system at once and ask for it anew, page by page, which was measured to take up to
a quarter of the time of a training (docs/experiments.md).
"""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from pathlib import Path

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # malloc.h of the GNU C library
_LARGE = 1 << 30
_GROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def machine_memory() -> int:
    """How many bytes of memory the machine has, or the group of processes may use at most."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # no group, or "max": no limit
        return min(physical, int(_GROUP_LIMIT.read_text()))
    return physical


def keep_freed_memory() -> bool:
    """Set this for the whole process; false where the C library does not know how.

    Commands do so. A program that uses the package decides for itself.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    # One arena, since only the first can hold large blocks and threads take turns anyway.
    settings = ((_MMAP_THRESHOLD, _LARGE), (_TRIM_THRESHOLD, _LARGE), (_ARENA_MAX, 1))
    return all(mallopt(name, value) == 1 for name, value in settings)
