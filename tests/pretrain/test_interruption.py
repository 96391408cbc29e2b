"""Signals end a run after the current step; a lock keeps others out."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from elmo.errors import UserError
from elmo.pretrain.interruption import locked, stopped_by_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_noted_and_the_handlers_come_back(number):
    before = signal.getsignal(number)
    with stopped_by_signals() as stop:
        assert not stop()
        os.kill(os.getpid(), number)
        assert stop()
    assert signal.getsignal(number) is before


def test_a_second_ctrl_c_stops_at_once():
    with stopped_by_signals() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_other_threads_leave_the_signals_alone():
    found: list[bool] = []

    def run() -> None:
        with stopped_by_signals() as stop:
            found.append(stop())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [False]


def test_the_lock_goes_with_the_process_that_holds_it(tmp_path):
    script = (
        "import sys; from pathlib import Path; from elmo.pretrain.interruption import locked\n"
        "with locked(Path(sys.argv[1])):\n    print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(UserError, match="another process"), locked(tmp_path):
            pass
        holder.kill()
        holder.wait()
    with locked(tmp_path):
        pass
