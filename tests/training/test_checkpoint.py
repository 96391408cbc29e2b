"""Checkpoints of any job: complete or absent, skipped if damaged; one job, one process, signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo.config import Json
from elmo.errors import UserError
from elmo.files import atomic_folder, locked_folder
from elmo.training import checkpoint
from elmo.training.checkpoint import (
    STOP_SIGNALS,
    check_same_job,
    differences,
    newest_checkpoint,
    save_checkpoint,
    stop_requested,
)

TENSORS = {"a.b": torch.arange(4.0), "c": torch.ones(2, 3, dtype=torch.int64)}


def write(folder: Path, step: int, keep: int = 2) -> None:
    tensors = {"weights": TENSORS, "training": {"step": torch.tensor(step)}}
    save_checkpoint(folder, step, {"note": f"step {step}"}, tensors, keep)


def note(progress: Json) -> str:
    if set(progress) != {"note"}:
        raise UserError(f"expected a note, got {progress}")
    return progress["note"]


def newest(folder: Path) -> str | None:
    found = newest_checkpoint(folder, note)
    return None if found is None else found[0]


def test_what_is_saved_is_what_is_loaded(tmp_path):
    assert newest_checkpoint(tmp_path / "nothing", note) is None
    write(tmp_path, 3)
    progress, tensors = newest_checkpoint(tmp_path, note)
    assert progress == "step 3"
    assert int(tensors["training"]["step"]) == 3
    assert tensors["weights"].keys() == TENSORS.keys()
    assert all(torch.equal(tensors["weights"][name], TENSORS[name]) for name in TENSORS)


def test_a_job_without_tensors_has_checkpoints_too(tmp_path):
    save_checkpoint(tmp_path, 1, {"note": "rows written: 7"}, {})
    assert newest_checkpoint(tmp_path, note) == ("rows written: 7", {})


def test_the_newest_are_kept_and_the_newest_is_loaded(tmp_path):
    for step in range(8, 13):
        write(tmp_path, step)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000000011", "step-000000012"]
    assert newest(tmp_path) == "step 12"


def test_what_fails_halfway_leaves_what_was_there(tmp_path, monkeypatch):
    write(tmp_path, 1, keep=1)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint, "write_json", killed)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path, 2, keep=1)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000001"]
    assert newest(tmp_path) == "step 1"


@given(data=st.data())
def test_any_damage_sends_a_job_back_to_the_checkpoint_before(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("job")
    for step in (1, 2):
        write(folder, step)
    names = ["model.safetensors", "training.safetensors"]
    path = folder / "step-000000002" / data.draw(st.sampled_from(names))
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    else:
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    assert newest(folder) == "step 1"


@pytest.mark.parametrize("content", ["", "{}", "[]", "null", '{"note": 3, "weights": []}'])
def test_damaged_progress_is_logged_skipped_and_deleted_by_the_next(tmp_path, caplog, content):
    write(tmp_path, 1)
    write(tmp_path, 2)
    (tmp_path / "step-000000002" / "progress.json").write_text(content)
    assert newest(tmp_path) == "step 1"
    assert "skipping a damaged checkpoint" in caplog.text
    write(tmp_path, 3, keep=1)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000003"]


def test_a_missing_file_is_damage(tmp_path):
    write(tmp_path, 1)
    (tmp_path / "step-000000001" / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"can be read \(step-000000001\); .* --fresh"):
        newest(tmp_path)


def test_a_new_checkpoint_replaces_damaged_ones_of_later_steps(tmp_path):
    for step in (7, 8, 9):
        write(tmp_path, step, keep=3)
    for step in (8, 9):
        (tmp_path / f"step-00000000{step}" / "progress.json").unlink()
    assert newest(tmp_path) == "step 7"
    write(tmp_path, 8)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000000007", "step-000000008"]
    assert newest(tmp_path) == "step 8"


def test_two_keys_of_one_file_are_not_both_saved(tmp_path):
    with pytest.raises(AssertionError, match="one file"):
        save_checkpoint(tmp_path, 1, {}, {"training": {}, "tensors": {}})


def test_checksums_are_in_progress_as_the_first_version_wrote_them(tmp_path):
    write(tmp_path, 1)
    progress = json.loads((tmp_path / "step-000000001" / "progress.json").read_text())
    assert progress.keys() == {"note", "weights", "training"}
    with atomic_folder(tmp_path / "step-000000002") as temporary:
        (temporary / "progress.json").write_text('{"note": "no tensors"}')
    assert newest(tmp_path) == "no tensors"


# One job is told from another.


def test_a_job_differs_by_settings_and_inputs_and_all_of_them_are_named(tmp_path):
    before = {"training": {"seed": 0, "rates": [1, 2]}, "text": "a" * 64, "vectors": None}
    now = {"training": {"seed": 1, "rates": [1, 2]}, "text": "b" * 64, "vectors": "v.txt"}
    assert differences(before, before) == []
    assert differences(before, now) == [
        "seed: 0 before, 1 now",
        "text: aaaaaaaaaa… before, bbbbbbbbbb… now",
        "vectors: unset before, v.txt now",
    ]
    check_same_job(tmp_path, before, before)
    with pytest.raises(UserError, match="seed: 0 before, 1 now") as error:
        check_same_job(tmp_path, before, now)
    assert "--fresh to start over" in str(error.value)


# Signals are noted and looked at after a step; a lock keeps other processes out.


@pytest.mark.parametrize("number", [getattr(signal, name) for name in STOP_SIGNALS])
def test_a_signal_is_noted_and_the_handlers_come_back(number):
    before = signal.getsignal(number)
    with stop_requested() as stop:
        assert not stop()
        os.kill(os.getpid(), number)
        assert stop()
    assert signal.getsignal(number) is before


def test_a_second_ctrl_c_stops_at_once():
    with stop_requested() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_a_signal_that_nohup_ignores_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_requested() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_other_threads_leave_the_signals_alone():
    found: list[bool] = []

    def run() -> None:
        with stop_requested() as stop:
            found.append(stop())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [False]


def test_the_lock_goes_with_the_process_that_holds_it(tmp_path):
    script = (
        "import sys; from pathlib import Path; from elmo.files import locked_folder\n"
        "with locked_folder(Path(sys.argv[1])):\n    print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(UserError, match="another process"), locked_folder(tmp_path):
            pass
        holder.kill()
        holder.wait()
    with locked_folder(tmp_path):
        pass
