"""The supervisor, with real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from typing import TYPE_CHECKING

import pytest

from localcluster.errors import LocalClusterError, StartError
from localcluster.logs import relevant_tail
from localcluster.process import Processes, identify, is_alive, processes_of
from support import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SLEEP = ["sleep", "600"]


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    supervisor = Processes(tmp_path / "state")
    yield supervisor
    for name in supervisor.names():
        supervisor.stop(name, grace_seconds=0)
    supervisor.stop_strays(grace_seconds=0)


def shell(script: str) -> list[str]:
    return ["sh", "-c", textwrap.dedent(script)]


def test_start_returns_when_the_process_is_ready(processes: Processes, tmp_path: Path) -> None:
    sign = tmp_path / "ready"
    pid = processes.start("a", shell(f"sleep 0.2; touch {sign}; exec sleep 600"), ready=sign.exists, timeout_seconds=10)
    assert sign.exists()
    assert processes.running("a") == pid


def test_a_process_that_exits_first_is_reported_at_once_with_its_last_words(processes: Processes) -> None:
    began = time.monotonic()
    with pytest.raises(StartError) as failure:
        processes.start("a", shell("echo the port is taken >&2; exit 3"), ready=lambda: False, timeout_seconds=30)
    assert time.monotonic() - began < 5
    assert "a exited with code 3 before it was ready" in str(failure.value)
    assert "the port is taken" in str(failure.value)
    assert processes.running("a") is None


def test_a_process_killed_by_a_signal_is_reported_with_its_name(processes: Processes) -> None:
    with pytest.raises(StartError, match="a exited with signal SIGKILL"):
        processes.start("a", shell("kill -9 $$"), ready=lambda: False, timeout_seconds=30)


def test_a_process_that_never_gets_ready_is_stopped_and_the_reason_told(processes: Processes) -> None:
    with pytest.raises(StartError, match=r"was not ready after 0.2 s \(etcd is slow\)"):
        processes.start("a", SLEEP, ready=lambda: "etcd is slow", timeout_seconds=0.2)
    assert processes.running("a") is None


def test_an_error_of_the_network_means_not_ready_yet(processes: Processes) -> None:
    answers = iter([ConnectionRefusedError("refused"), ConnectionResetError("reset")])

    def ready() -> bool:
        for error in answers:
            raise error
        return True

    assert processes.start("a", SLEEP, ready=ready, timeout_seconds=10)


def test_a_program_that_is_not_installed_is_named(processes: Processes) -> None:
    with pytest.raises(LocalClusterError, match="a: no-such-program is not installed"):
        processes.start("a", ["no-such-program"], ready=lambda: True, timeout_seconds=1)


def test_starting_again_keeps_the_process_that_runs(processes: Processes) -> None:
    first = processes.start("a", SLEEP, ready=lambda: True, timeout_seconds=1)
    assert processes.start("a", SLEEP, ready=lambda: True, timeout_seconds=1) == first


def test_starting_with_other_arguments_replaces_the_process(processes: Processes) -> None:
    first = processes.start("a", SLEEP, ready=lambda: True, timeout_seconds=1)
    second = processes.start("a", ["sleep", "601"], ready=lambda: True, timeout_seconds=1)
    assert first != second
    assert identify(first) is None


def test_a_process_that_hangs_is_replaced(processes: Processes) -> None:
    first = processes.start("a", SLEEP, ready=lambda: True, timeout_seconds=1)
    os.kill(first, signal.SIGSTOP)
    second = processes.start("a", SLEEP, ready=lambda: processes.running("a") != first, timeout_seconds=0.3)
    assert first != second
    assert identify(first) is None


def test_a_process_that_ignores_sigterm_is_killed_after_the_grace(processes: Processes, tmp_path: Path) -> None:
    sign = tmp_path / "ready"
    script = f"trap '' TERM; touch {sign}; while true; do sleep 0.1; done"
    pid = processes.start("a", shell(script), ready=sign.exists, timeout_seconds=10)
    assert processes.stop("a", grace_seconds=0.3)
    assert identify(pid) is None


def test_stopping_what_does_not_run_is_no_error(processes: Processes) -> None:
    assert not processes.stop("a")


def test_a_reused_pid_is_never_killed(processes: Processes) -> None:
    processes.start("a", SLEEP, ready=lambda: True, timeout_seconds=1)
    record = json.loads(processes.pid_file("a").read_text())
    processes.stop("a")
    # Start times are told in ticks of 10 ms.
    time.sleep(0.05)
    with subprocess.Popen(SLEEP) as stranger:
        # The kernel gave the number to somebody else, who started later.
        processes.pid_file("a").write_text(json.dumps({**record, "pid": stranger.pid}))
        try:
            assert processes.running("a") is None
            assert not processes.stop("a", grace_seconds=0)
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_a_pid_file_of_an_earlier_boot_names_nobody(processes: Processes) -> None:
    processes.start("a", SLEEP, ready=lambda: True, timeout_seconds=1)
    record = json.loads(processes.pid_file("a").read_text())
    processes.pid_file("a").write_text(json.dumps({**record, "boot": "another"}))
    assert processes.running("a") is None


def test_a_torn_pid_file_names_nobody_but_the_process_is_found_by_its_mark(processes: Processes) -> None:
    pid = processes.start("a", SLEEP, ready=lambda: True, timeout_seconds=1)
    processes.pid_file("a").write_text("{")
    assert processes.running("a") is None
    assert [stray.pid for stray in processes.strays()] == [pid]
    assert processes.stop_strays() == 1
    assert processes_of(processes.state) == []


def test_what_a_component_forked_is_found_after_the_component_is_gone(processes: Processes, tmp_path: Path) -> None:
    sign = tmp_path / "ready"
    processes.start(
        "a", shell(f"setsid sleep 600 & touch {sign}; exec sleep 600"), ready=sign.exists, timeout_seconds=10
    )
    eventually(lambda: _expect(len(processes.strays()) == 1))
    processes.stop("a", grace_seconds=0)
    assert processes.stop_strays() == 1


def test_strays_of_another_cluster_are_not_ours(processes: Processes, tmp_path: Path) -> None:
    other = Processes(tmp_path / "state-2")
    other.start("a", SLEEP, ready=lambda: True, timeout_seconds=1)
    assert processes.strays() == []
    assert other.stop("a")


def test_processes_outlive_the_one_that_started_them(processes: Processes) -> None:
    code = f"""
        from pathlib import Path
        from localcluster.process import Processes
        Processes(Path({str(processes.state)!r})).start("a", {SLEEP!r}, ready=lambda: True, timeout_seconds=1)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)
    pid = processes.running("a")
    assert pid is not None
    identity = identify(pid)
    assert identity is not None
    assert is_alive(identity)
    assert processes.stop("a")


def test_the_log_of_an_earlier_start_is_not_shown(processes: Processes) -> None:
    with pytest.raises(StartError, match="first trouble"):
        processes.start("a", shell("echo first trouble; exit 1"), ready=lambda: False, timeout_seconds=5)
    with pytest.raises(StartError) as failure:
        processes.start("a", shell("echo second trouble; exit 1"), ready=lambda: False, timeout_seconds=5)
    assert "second trouble" in str(failure.value)
    assert "first trouble" not in str(failure.value)


def test_the_tail_shows_errors_that_scrolled_away_and_the_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    noise = [f"I1121 03:00:{number:02} nothing" for number in range(50)]
    log.write_text("\n".join([*noise[:5], "E1121 03:00:05 the reason", *noise[5:]]) + "\n")
    shown = relevant_tail(log, lines=6).splitlines()
    assert shown[0] == "  ..."
    assert shown[1] == "  E1121 03:00:05 the reason"
    assert shown[-1] == f"  {noise[-1]}"
    assert len(shown) == 8


def test_a_log_that_is_absent_has_no_tail(tmp_path: Path) -> None:
    assert not relevant_tail(tmp_path / "absent")


def _expect(truth: bool) -> None:
    assert truth
