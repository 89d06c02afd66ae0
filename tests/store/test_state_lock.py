import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from herdbeat.errors import Conflict, StoreUnavailable
from herdbeat.store.state_lock import StateLock, find_lock_holder


def test_a_second_process_learns_which_pid_holds_the_state(tmp_path: Path) -> None:
    with StateLock(tmp_path), pytest.raises(Conflict, match=f"pid {os.getpid()}"):
        StateLock(tmp_path).acquire()


def test_a_lock_that_was_released_can_be_taken_again(tmp_path: Path) -> None:
    with StateLock(tmp_path):
        assert find_lock_holder(tmp_path) == os.getpid()

    with StateLock(tmp_path):
        pass
    assert find_lock_holder(tmp_path) is None


def test_a_folder_that_does_not_exist_has_no_holder(tmp_path: Path) -> None:
    assert find_lock_holder(tmp_path / "nothing") is None


def test_a_file_in_place_of_the_state_directory_is_an_unusable_folder(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("somebody's notes")

    with pytest.raises(StoreUnavailable, match="cannot be used as the state directory: Not a directory"):
        find_lock_holder(tmp_path / "state")


def test_a_killed_process_holds_no_lock(tmp_path: Path) -> None:
    code = f"""
import sys
import threading
from pathlib import Path
from herdbeat.store.state_lock import StateLock
StateLock(Path({str(tmp_path)!r})).acquire()
print("held", flush=True)
sys.stdin.read()
"""
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        assert find_lock_holder(tmp_path) == other.pid

        other.kill()
        other.wait()

    with StateLock(tmp_path):
        assert find_lock_holder(tmp_path) == os.getpid()


def test_a_node_was_not_found_after_its_lock_file_was_removed_and_another_process_had_made_a_new_one(
    tmp_path: Path,
) -> None:
    with StateLock(tmp_path) as lock:
        (tmp_path / "lock").unlink()
        (tmp_path / "lock").touch()  # as a second `up` leaves it
        check = threading.Timer(0.3, lock.check)  # as a node does every second
        check.start()

        assert find_lock_holder(tmp_path) == os.getpid()

        check.join()


def test_a_holder_of_another_ledger_is_not_the_holder_of_this_one(tmp_path: Path) -> None:
    with StateLock(tmp_path, "postgresql://me@db/fleet"):
        found = [find_lock_holder(tmp_path, ledger) for ledger in (None, "postgresql://me@db/fleet", "")]

    assert found == [os.getpid(), os.getpid(), None]
