"""Other work on the machine is seen, our own is not taken for it."""

from __future__ import annotations

import subprocess
import sys
import time

from machine_load import Usage, cores_busy

LOOP = "while True: pass"


def work(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def test_what_others_do_is_the_rest() -> None:
    before, later = Usage(10.0, 100.0, 50.0), Usage(14.0, 107.0, 53.0)
    assert before.cores_of_others(later) == 1.0
    assert before.cores_of_others(Usage(14.0, 102.0, 53.0)) == 0.0


def test_our_own_work_is_counted_as_ours() -> None:
    before = Usage.now()
    work(0.3)
    assert Usage.now().ours > before.ours


def test_a_process_that_works_for_us_is_ours_and_any_other_is_not() -> None:
    other = subprocess.Popen([sys.executable, "-c", LOOP])
    try:
        before = Usage.now([other.pid])
        time.sleep(0.5)
        assert Usage.now([other.pid]).ours > before.ours
        assert cores_busy(0.5) > 0
    finally:
        other.kill()
        other.wait()


def test_a_process_that_has_ended_was_ours() -> None:
    before = Usage.now()
    busy = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    subprocess.run([sys.executable, "-c", busy], check=True)
    assert Usage.now().ours - before.ours > 0.25
