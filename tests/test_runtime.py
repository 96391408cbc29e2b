"""Cores, memory and processes, on Linux and on systems that lack what Linux has."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from elmo import runtime
from elmo.errors import UserError
from elmo.runtime import compute_precision, has_bf16_units, require_extra, set_device

FAULTS = """
import resource, sys
import torch
from elmo.runtime import keep_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

if sys.argv[1] == "kept":
    assert keep_freed_memory()
for _ in range(20):
    torch.ones(10_000_000)
before = faults()
for _ in range(5):
    torch.ones(10_000_000)
print(faults() - before)
"""


def faults(how: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only the GNU C library is set")
def test_a_tensor_takes_the_place_of_one_that_was_freed() -> None:
    pages = 10_000_000 * 4 // 4096
    assert faults("kept") < pages / 10
    assert faults("given back") > pages


def test_the_machines_memory_is_what_the_system_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "_MEMORY_LIMIT", Path("/nowhere"))
    lines = Path("/proc/meminfo").read_text().splitlines()
    kilobytes = next(int(line.split()[1]) for line in lines if line.startswith("MemTotal"))
    assert runtime.machine_memory() == 1024 * kilobytes


@pytest.mark.parametrize(("limit", "found"), [("4096\n", 4096), ("max\n", None)])
def test_a_limit_of_the_group_of_processes_counts(
    limit: str, found: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "_MEMORY_LIMIT", tmp_path / "none")
    whole = runtime.machine_memory()
    (tmp_path / "memory.max").write_text(limit)
    monkeypatch.setattr(runtime, "_MEMORY_LIMIT", tmp_path / "memory.max")
    assert runtime.machine_memory() == (found or whole)


def test_memory_is_assumed_where_the_system_does_not_tell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runtime, "_MEMORY_LIMIT", Path("/nowhere"))

    def unknown(name: str) -> int:
        raise ValueError(f"unrecognized configuration name {name}")

    monkeypatch.setattr(os, "sysconf", unknown)
    assert runtime.machine_memory() == 8 << 30
    monkeypatch.delattr(os, "sysconf")
    assert runtime.machine_memory() == 8 << 30


@pytest.mark.parametrize(
    ("quota", "cores"),
    [("max 100000", 8), ("150000 100000", 1), ("50000 100000", 1), ("400000 100000", 4), ("", 8)],
)
def test_cores_are_those_of_the_process_cut_to_the_quota_of_the_container(
    quota: str, cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpu.max").write_text(quota)
    monkeypatch.setattr(runtime, "_CPU_LIMIT", tmp_path / "cpu.max")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert runtime.cpu_cores() == cores


@pytest.mark.parametrize(("count", "cores"), [(6, 6), (None, 1)])
def test_cores_where_there_is_no_affinity(
    count: int | None, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "_CPU_LIMIT", Path("/nowhere"))
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: count)
    assert runtime.cpu_cores() == cores


@pytest.mark.parametrize(("system", "asked"), [("linux", ["fork"]), ("darwin", []), ("win32", [])])
def test_processes_are_forked_only_where_that_is_safe(
    system: str, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    found: list[str] = []
    monkeypatch.setattr(multiprocessing, "get_context", found.append)
    assert runtime.fork_context() is None
    assert found == asked


def test_nothing_is_registered_where_processes_do_not_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    monkeypatch.setattr(os, "register_at_fork", lambda **given: called.extend(given))
    runtime.after_fork_in_child(list)
    assert called == ["after_in_child"]
    monkeypatch.delattr(os, "register_at_fork")
    runtime.after_fork_in_child(list)
    assert called == ["after_in_child"]


def test_the_package_imports_and_reads_text_without_what_other_systems_lack(tmp_path: Path) -> None:
    program = """
import os, sys
from pathlib import Path
import filelock, multiprocessing.connection, torch  # libraries look at sys.platform themselves
sys.modules["fcntl"] = None
for name in ("sched_getaffinity", "posix_fallocate", "preadv", "pwrite", "sysconf", "fork",
             "register_at_fork", "getloadavg", "mkfifo", "geteuid"):
    if hasattr(os, name):
        delattr(os, name)
import elmo.cli.main, elmo.training.pretrain, elmo.classify.training, elmo.study.runner
from elmo import runtime
from elmo.text.corpus import CorpusRequest, prepare
from elmo.text.sources import resolve
request = CorpusRequest(sources=resolve([sys.argv[1]]), held_out_share=0.0)
corpus = prepare(request, cache=Path(sys.argv[2]))
print(corpus.tokens, runtime.cpu_cores() >= 1, runtime.machine_memory() > 0)
"""
    (tmp_path / "a.txt").write_text("one two three\nfour five\n")
    command = [sys.executable, "-c", program, str(tmp_path / "a.txt"), str(tmp_path / "cache")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "5 True True\n", done.stderr


def test_threads_are_set_and_devices_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    try:
        set_device("cpu", 3)
        assert torch.get_num_threads() == 3
        monkeypatch.setenv("LOCAL_WORLD_SIZE", "1000")
        set_device("cpu", None)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
    with pytest.raises(UserError, match="cannot be used here"):
        set_device("cuda:77", None)
    with pytest.raises(UserError, match="device 'hpu' cannot be used here"):
        set_device("hpu", None)  # torch knows the name, but fails to import its module
    with pytest.raises(UserError, match="--threads: expected 1 to 1,024"):
        set_device("cpu", 0)


def test_bf16_is_used_where_it_is_asked_for_or_the_processor_has_it(monkeypatch):
    cpu = torch.device("cpu")
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict, raising=False)
    assert not has_bf16_units(cpu)
    assert compute_precision("auto", cpu) == torch.float32
    assert compute_precision("bf16", cpu) == torch.bfloat16
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"amx_bf16": True})
    assert compute_precision("auto", cpu) == torch.bfloat16
    assert compute_precision("fp32", cpu) == torch.float32
    with pytest.raises(UserError, match="expected float32, bfloat16 or auto, got 'fp16'"):
        compute_precision("fp16", cpu)


def test_a_module_that_is_there_is_given() -> None:
    assert require_extra("json", "none") is sys.modules["json"]


def test_a_missing_extra_names_the_install_command() -> None:
    with pytest.raises(UserError) as raised:
        require_extra("no_such_module.part", "official")
    assert "'no_such_module'" in str(raised.value)
    assert str(raised.value).endswith("pip install 'elmo-embeddings[official]'")


def test_a_module_broken_by_another_is_not_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elmo_test_broken.py").write_text("import elmo_test_absent\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="elmo_test_absent"):
        require_extra("elmo_test_broken", "study")
