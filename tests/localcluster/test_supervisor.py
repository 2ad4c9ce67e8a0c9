"""The supervisor of a cluster's processes, with real processes."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcluster.errors import LocalClusterError, StartError
from localcluster.processes.logs import complete_lines, relevant_tail
from localcluster.processes.process import identify, processes_of
from localcluster.processes.supervisor import Supervisor
from tests.support.waiting import becomes

SLEEP = ["sleep", "600"]


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Supervisor]:
    supervisor = Supervisor(tmp_path / "state")
    yield supervisor
    for name in supervisor.names():
        supervisor.stop(name, grace_seconds=0)
    supervisor.stop_orphans(grace_seconds=0)


def test_a_process_that_exits_first_is_reported_at_once_with_its_own_end_of_the_log(processes: Supervisor) -> None:
    began = time.monotonic()
    for script, reason in (
        ("echo the port is taken >&2; exit 3", r"a exited with code 3 before it was ready(.|\n)*the port is taken"),
        ("echo second trouble; kill -9 $$", r"a exited with signal SIGKILL(.|\n)*second trouble"),
    ):
        with pytest.raises(StartError, match=reason) as failure:
            processes.start("a", ["sh", "-c", script], ready=lambda: False, timeout_seconds=600)
        assert processes.running("a") is None
    assert time.monotonic() - began < 60
    assert "the port is taken" not in str(failure.value)


def test_a_process_that_never_becomes_ready_is_stopped_and_the_reason_reported(processes: Supervisor) -> None:
    with pytest.raises(StartError, match=r"was not ready after 0.2 s \(etcd is slow\)"):
        processes.start("a", SLEEP, ready=lambda: "etcd is slow", timeout_seconds=0.2)
    assert processes.running("a") is None
    with pytest.raises(LocalClusterError, match="a: no-such-program is not installed"):
        processes.start("a", ["no-such-program"], ready=lambda: True)


def test_starting_again_keeps_the_process_unless_it_hangs_or_its_arguments_are_others(processes: Supervisor) -> None:
    first = processes.start("a", SLEEP, ready=lambda: True)
    assert processes.start("a", SLEEP, ready=lambda: True) == first
    os.kill(first, signal.SIGSTOP)
    second = processes.start("a", SLEEP, ready=lambda: processes.running("a") != first, timeout_seconds=0.3)
    third = processes.start("a", ["sleep", "601"], ready=lambda: True)
    assert len({first, second, third}) == 3
    assert identify(first) is identify(second) is None


def test_a_process_that_ignores_sigterm_is_killed_after_the_grace(processes: Supervisor, tmp_path: Path) -> None:
    sign = tmp_path / "ready"
    script = f"trap '' TERM; touch {sign}; while true; do sleep 0.1; done"
    pid = processes.start("a", ["sh", "-c", script], ready=sign.exists)
    assert processes.stop("a", grace_seconds=0.3)
    assert identify(pid) is None
    # What does not run is not stopped again.
    assert not processes.stop("a")


def test_a_pid_file_of_an_earlier_boot_or_of_a_reused_pid_matches_no_process(processes: Supervisor) -> None:
    processes.start("a", SLEEP, ready=lambda: True)
    file = processes.pid_file("a")
    text = file.read_text()
    file.write_text(json.dumps({**json.loads(text), "boot": "another"}))
    assert processes.running("a") is None
    file.write_text(text)
    assert processes.stop("a")
    # Start times are reported in ticks of 10 ms.
    time.sleep(0.05)
    with subprocess.Popen(SLEEP) as stranger:
        # The kernel gave the PID to another process, which started later.
        file.write_text(json.dumps({**json.loads(text), "pid": stranger.pid}))
        try:
            assert processes.running("a") is None
            assert not processes.stop("a", grace_seconds=0)
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_a_truncated_pid_file_matches_no_process_but_the_process_is_found_as_an_orphan(
    processes: Supervisor, tmp_path: Path
) -> None:
    other = Supervisor(tmp_path / "state-2")
    other.start("a", SLEEP, ready=lambda: True)
    pid = processes.start("a", SLEEP, ready=lambda: True)
    # Processes of another cluster are not ours.
    assert processes.orphans() == []
    processes.pid_file("a").write_text("{")
    assert processes.running("a") is None
    assert [orphan.pid for orphan in processes.orphans()] == [pid]
    assert processes.stop_orphans() == 1
    assert processes_of(processes.state) == []
    assert other.stop("a")


def test_a_fork_of_a_component_is_found_as_an_orphan_after_the_component_is_gone(
    processes: Supervisor, tmp_path: Path
) -> None:
    sign = tmp_path / "ready"
    fork = f"setsid sh -c 'touch {sign}; exec sleep 600'"
    processes.start("a", ["sh", "-c", f"{fork} & exec sleep 600"], ready=sign.exists)
    becomes(lambda: len(processes.orphans()), 1)
    processes.stop("a", grace_seconds=0)
    assert processes.stop_orphans() == 1


def test_processes_outlive_the_one_that_started_them_and_ignore_no_signal_that_it_ignores(
    processes: Supervisor,
) -> None:
    code = f"""
        import signal
        from pathlib import Path
        from localcluster.processes.supervisor import Supervisor
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        Supervisor(Path({str(processes.state)!r})).start("a", {SLEEP!r}, ready=lambda: True, timeout_seconds=10)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)
    pid = processes.running("a")
    assert pid is not None
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    assert not int(status["SigIgn"], 16) & 1 << signal.SIGINT - 1
    assert processes.stop("a")


def test_the_tail_shows_earlier_errors_and_the_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    noise = [f"I1121 03:00:{number:02} nothing" for number in range(50)]
    log.write_text("\n".join([*noise[:5], "E1121 03:00:05 the reason", *noise[5:]]) + "\n")
    shown = relevant_tail(log, lines=6).splitlines()
    assert shown[0] == "  ..."
    assert shown[1] == "  E1121 03:00:05 the reason"
    assert shown[-1] == f"  {noise[-1]}"
    assert len(shown) == 8
    assert not relevant_tail(tmp_path / "absent")


def test_a_line_that_is_being_written_is_not_complete(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"")
    assert complete_lines(log) == []
    log.write_bytes('{"a": 1}\n{"b": "Grüße"}\n{"c": "ü'.encode()[:-1])
    assert complete_lines(log) == ['{"a": 1}', '{"b": "Grüße"}']
