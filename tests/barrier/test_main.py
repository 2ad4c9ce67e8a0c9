"""The barrier as a process: exit codes, last line, files."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from testkit.waiting import patience
from tests.barrier.files.test_output import probe
from tests.barrier.gangs import configmap, environment, ip, roster
from tests.barrier.process import Barrier
from tests.barrier.source.faulty_server import Reply, Request, Script, Serve, answers

Start = Callable[..., Barrier]


def shows(document: dict[str, Any], *events: tuple[str, object]) -> Script:
    """A roster in its ConfigMap, and what the watch says after it."""
    return answers(configmap(document), *events)


COMPLETE = shows(roster({"worker": 1}))
INCOMPLETE = shows(roster({"worker": 2}, ready=1))


def ended(barrier: Barrier, code: int, says: str) -> None:
    """It has this exit code, and a last line that says this, names the code, and is the termination message."""
    found, last = barrier.ends()
    assert found == code, barrier.lines
    assert re.search(rf"{says} \(exit code {code}\)$", last), last
    assert last.endswith(f" {barrier.termination_log.read_text()}"), last


def imported(environ: dict[str, str]) -> set[str]:
    """Top-level packages that one run imports."""
    own = {"PATH": os.environ["PATH"], "FB_TERMINATION_LOG": "/nonexistent"}
    command = [sys.executable, "-X", "importtime", "-m", "frameworkbarrier"]
    run = subprocess.run(command, env=own | environ, capture_output=True, text=True, timeout=patience(30), check=False)
    lines = [line for line in run.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


def test_a_pod_imports_only_what_it_needs(serve: Serve, folder: Path) -> None:
    server = serve(COMPLETE)
    environ = environment(KUBE_APISERVER_ADDRESS=server.url, FB_OUTPUT_DIR=str(folder), FB_FRAMEWORK_JSON="never")
    assert imported(environ) >= {"frameworkbarrier", "requests"}
    assert (folder / "generation").exists()
    assert not imported(environ) & {"tenacity", "jinja2", "argparse", "kubernetes"}
    without_folder = environ | {"FB_OUTPUT_DIR": str(folder / "absent")}
    assert not imported(without_folder) & {"requests", "urllib3", "tomllib", "ssl"}


def test_an_open_gang_exits_0_with_all_files_and_one_request(start: Start, serve: Serve, folder: Path) -> None:
    server = serve(shows(roster({"chief": 1, "worker": 2})))
    barrier = start(server.url, environment("worker", 1, FB_PRESET="tensorflow", FB_FRAMEWORK_JSON="never"))
    code, last = barrier.ends()
    assert code == 0, barrier.lines
    assert "3/3 Tasks of lab/mnist" in last
    assert last.endswith(f" {barrier.termination_log.read_text()}"), last
    assert {"injector.sh", "env", "run", "hosts", "roster.json", "generation"} <= {p.name for p in folder.iterdir()}
    assert [request.path for request in server.requests] == ["/api/v1/namespaces/lab/configmaps/mnist-attempt"]
    command = [str(folder / "run"), "sh", "-c", 'printf "%s\n%s" "$TF_CONFIG" "$FB_WORKER_IPS"']
    config, ips = subprocess.check_output(command, text=True).split("\n")
    assert json.loads(config)["task"] == {"type": "worker", "index": 1}
    assert ips == f"{ip(2)},{ip(3)}"


@dataclass(frozen=True)
class End:
    """What the API server answers, the settings, the exit code, and what the last line says."""

    answers: Script
    environ: dict[str, str]
    code: int
    says: str
    flags: tuple[str, ...] = ()


def hangs(request: Request, reply: Reply) -> None:
    reply.hang()


MISSING = [{"task": "worker-3", "why": "Pending: Unschedulable"}, {"task": "worker-4", "why": ""}]
NO_ANSWER = "gave up after 1 s of waiting for the first answer of the API server"
ATTEMPT_IS_OVER = "ConfigMap lab/mnist-attempt .*Framework attempt is over"
ENDS = {
    # Much more than the first answer takes, on a busy machine too.
    "the timeout says who is missing and why": End(
        shows(roster({"worker": 10}, ready=7, waitingFor=MISSING)),
        {},
        201,
        "gave up after 10 s of waiting 7/10: worker-3 Pending: Unschedulable, worker-4, 1 more",
        ("--check-timeout-sec", "10"),
    ),
    # The first request was still under way: when it is given up, the line says why instead.
    "the timeout holds against a server that says nothing": End(
        hangs, {"BARRIER_CHECK_TIMEOUT_SEC": "1"}, 201, NO_ANSWER
    ),
    "a bad value": End(COMPLETE, {"FC_TASK_INDEX": "minus one"}, 210, "FC_TASK_INDEX"),
    "no folder": End(COMPLETE, {"FB_OUTPUT_DIR": "/nowhere"}, 210, "FB_OUTPUT_DIR"),
    "a port of no role": End(COMPLETE, {"FB_PORTS": "driver=2222"}, 210, "FB_PORTS"),
    "no API server": End(COMPLETE, {"KUBE_APISERVER_ADDRESS": ""}, 210, "KUBE_APISERVER_ADDRESS"),
    "an unknown flag": End(COMPLETE, {}, 210, "--nonsense", ("--nonsense",)),
    "there is no ConfigMap": End(answers(404), {}, 210, ATTEMPT_IS_OVER),
    "the ConfigMap is deleted while waiting": End(
        shows(roster({"worker": 2}, ready=1), ("DELETED", configmap(None, 2))), {}, 210, ATTEMPT_IS_OVER
    ),
    "the ConfigMap is that of another attempt": End(
        answers(configmap(roster({"worker": 2}), cm_uid="other")), {}, 210, ATTEMPT_IS_OVER
    ),
    "a file cannot be written": End(COMPLETE, {"FB_OUTPUT_DIR": "/proc"}, 1, "cannot write /proc/injector.sh"),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_an_end_has_its_exit_code_and_a_last_line_that_is_the_termination_message(
    start: Start, serve: Serve, end: End
) -> None:
    server = serve(end.answers)
    ended(start(server.url, environment() | end.environ, *end.flags), end.code, f"{end.says}.*")
    assert end.answers is not hangs or len(server.requests) <= 1


@pytest.mark.parametrize("phase", ["first answer", "watch"])
def test_sigterm_exits_143_at_once(start: Start, serve: Serve, phase: str) -> None:
    server = serve(INCOMPLETE if phase == "watch" else hangs)
    barrier = start(server.url, environment())
    server.is_asked(2 if phase == "watch" else 1)
    time.sleep(0.2)
    barrier.process.send_signal(signal.SIGTERM)
    # It did not wait for the end of the request, which is a fault that the line would name.
    says = "1/2: 1 Task" if phase == "watch" else " for the first answer of the API server"
    ended(barrier, 143, rf"ended by SIGTERM after \S+ s of waiting ?{says}")


def test_the_startup_probe_of_a_sidecar_succeeds_when_the_gate_opens(start: Start, serve: Serve, folder: Path) -> None:
    opens = threading.Event()

    def script(request: Request, reply: Reply) -> None:
        if request.watches:
            opens.wait(60)
        shows(roster({"worker": 2}, ready=1), ("MODIFIED", configmap(roster({"worker": 2}))))(request, reply)

    barrier = start(serve(script).url, environment(FB_MODE="sidecar", FB_FRAMEWORK_JSON="never"))
    barrier.reports("waiting 1/2")
    assert probe(folder, 0.1) == 1
    opens.set()
    assert probe(folder, 60) == 0
    barrier.process.kill()
    barrier.process.wait()
    (folder / "generation").unlink()
    # The lock is gone with the process, so the next probe fails at once.
    assert probe(folder, 60) == 1


@pytest.mark.parametrize("mode", ["init", "sidecar"])
@pytest.mark.parametrize("after", [0.06 + 0.013 * number for number in range(16)])
def test_sigterm_ends_it_at_any_moment_of_its_start(start: Start, serve: Serve, mode: str, after: float) -> None:
    barrier = start(serve(INCOMPLETE).url, environment(FB_MODE=mode, FB_PRESET="jax"))
    time.sleep(after)
    barrier.process.send_signal(signal.SIGTERM)
    # Before Python itself is up, nobody handles the signal, and it ends the process by its own meaning.
    assert barrier.process.wait(patience(10)) in {143, -signal.SIGTERM}


def test_as_pid_1_sigterm_ends_it(folder: Path, serve: Serve) -> None:
    command = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]
    own = {"PATH": os.environ["PATH"], "FB_OUTPUT_DIR": str(folder), "KUBE_APISERVER_ADDRESS": serve(INCOMPLETE).url}
    with subprocess.Popen(
        [*command, sys.executable, "-m", "frameworkbarrier"], env=environment(**own), stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            assert "waiting 1/2" in process.stderr.readline()
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            os.kill(int(children[0]), signal.SIGTERM)
            assert process.wait(patience(10)) == 143
            assert "ended by SIGTERM" in process.stderr.read()
        finally:
            process.kill()


def test_a_generation_of_an_earlier_run_is_gone_before_the_wait(start: Start, serve: Serve, folder: Path) -> None:
    (folder / "generation").write_text("7\n")
    server = serve(INCOMPLETE)
    start(server.url, environment())
    server.is_asked(1)
    assert not (folder / "generation").exists()


def test_a_fault_that_nobody_thought_of_exits_1_and_says_so_in_the_last_line(
    start: Start, serve: Serve, folder: Path
) -> None:
    (folder.parent / "sitecustomize.py").write_text(
        "import frameworkbarrier.gate.wait as w\n"
        "def fail(*a, **k): raise ZeroDivisionError('unthought of')\nw.wait = fail\n"
    )
    barrier = start(serve(COMPLETE).url, environment(PYTHONPATH=str(folder.parent)))
    ended(barrier, 1, "the barrier failed: ZeroDivisionError: unthought of")


def test_a_log_in_json_is_json(start: Start, serve: Serve) -> None:
    barrier = start(serve(INCOMPLETE).url, environment(FB_LOG_FORMAT="json", BARRIER_CHECK_TIMEOUT_SEC="10"))
    assert barrier.ends()[0] == 201
    lines = [json.loads(line) for line in barrier.lines]
    assert [line["level"] for line in lines] == ["info", "error"]
    assert all(line["ts"].endswith("Z") for line in lines)


WATCHED = """
import os, sys
written = []
def hook(event, arguments):
    if event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        written.append(str(arguments[0]))
sys.addaudithook(hook)
from frameworkbarrier.__main__ import main
code = main([])
print("\\n".join(written))
sys.exit(code)
"""


def test_nothing_is_written_outside_of_the_folder_so_a_read_only_root_will_do(serve: Serve, folder: Path) -> None:
    environ = environment(FB_PRESET="tensorflow", FB_OUTPUT_DIR=str(folder), FB_TERMINATION_LOG="/nowhere/log")
    environ |= {"KUBE_APISERVER_ADDRESS": serve(COMPLETE).url, "TMPDIR": "/nowhere"}
    written = subprocess.check_output([sys.executable, "-B", "-c", WATCHED], env=environ, text=True).split()
    assert written.count("/nowhere/log") == 1
    others = [name for name in written if name != "/nowhere/log"]
    assert others
    assert all("/" not in name for name in others)  # relative to the folder's handle
