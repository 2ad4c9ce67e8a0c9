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
from pathlib import Path

import pytest

from testkit.waiting import patience
from tests.barrier.faulty_server import FaultyServer, Reply, Request, Script
from tests.barrier.gangs import configmap, environment, ip, roster
from tests.barrier.process import Barrier

Serve = Callable[[Script], FaultyServer]


def always(document: dict[str, object] | None) -> Script:
    def script(request: Request, reply: Reply) -> None:
        if request.watches:
            reply.stream()
            reply.hang()
        else:
            reply.answer(200, configmap(document))

    return script


def imported(environ: dict[str, str]) -> set[str]:
    """Top-level packages that one run imports."""
    own = {"PATH": os.environ["PATH"], "FB_TERMINATION_LOG": "/nonexistent"}
    command = [sys.executable, "-X", "importtime", "-m", "frameworkbarrier"]
    run = subprocess.run(command, env=own | environ, capture_output=True, text=True, timeout=patience(30), check=False)
    lines = [line for line in run.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


def test_a_pod_imports_only_what_it_needs(serve: Serve, folder: Path) -> None:
    server = serve(always(roster({"worker": 1})))
    environ = environment(
        "worker", 0, KUBE_APISERVER_ADDRESS=server.url, FB_OUTPUT_DIR=str(folder), FB_FRAMEWORK_JSON="never"
    )
    assert imported(environ) >= {"frameworkbarrier", "requests"}
    assert (folder / "generation").exists()
    assert not imported(environ) & {"tenacity", "jinja2", "argparse", "kubernetes"}
    without_folder = environ | {"FB_OUTPUT_DIR": str(folder / "absent")}
    assert not imported(without_folder) & {"requests", "urllib3", "tomllib", "ssl"}


def test_an_open_gang_exits_0_with_all_files_and_one_request(
    start: Callable[..., Barrier], serve: Serve, folder: Path
) -> None:
    server = serve(always(roster({"chief": 1, "worker": 2})))
    barrier = start(server.url, environment("worker", 1, FB_PRESET="tensorflow", FB_FRAMEWORK_JSON="never"))
    code, last = barrier.ends()
    assert code == 0, barrier.lines
    assert "3/3 Tasks of lab/mnist" in last
    assert last.endswith(f" {barrier.termination_log.read_text()}"), last
    assert {"injector.sh", "env", "run", "hosts", "roster.json", "generation"} <= {p.name for p in folder.iterdir()}
    assert [request.path for request in server.requests] == ["/api/v1/namespaces/lab/configmaps/mnist-attempt"]
    output = subprocess.run(
        [folder / "run", "sh", "-c", 'printf "%s\n%s" "$TF_CONFIG" "$FB_WORKER_IPS"'],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    config, ips = output.split("\n")
    assert json.loads(config) == {
        "cluster": {"chief": [f"{ip(1)}:2222"], "worker": [f"{ip(2)}:2222", f"{ip(3)}:2222"]},
        "task": {"type": "worker", "index": 1},
    }
    assert ips == f"{ip(2)},{ip(3)}"


def test_a_gang_that_completes_later_opens_by_the_watch_alone(start: Callable[..., Barrier], serve: Serve) -> None:
    def script(request: Request, reply: Reply) -> None:
        if not request.watches:
            missing = [{"task": "worker-1", "why": "Pending: Unschedulable: 0/3 nodes are available"}]
            reply.answer(200, configmap(roster({"worker": 2}, ready=1, waitingFor=missing), 7))
            return
        assert request.query["resourceVersion"] == "7"
        assert request.query["fieldSelector"] == "metadata.name=mnist-attempt"
        assert request.query["allowWatchBookmarks"] == "true"
        reply.stream()
        time.sleep(0.3)
        reply.event("MODIFIED", configmap(roster({"worker": 2}, generation=2), 8))
        reply.hang()

    server = serve(script)
    barrier = start(server.url, environment(FB_FRAMEWORK_JSON="never"))
    code, _ = barrier.ends()
    assert code == 0, barrier.lines
    assert barrier.lines[0].endswith("waiting 1/2: worker-1 Pending: Unschedulable: 0/3 nodes are available")
    assert len(server.requests) == 2


def test_the_timeout_exits_201_and_says_who_is_missing_and_why(start: Callable[..., Barrier], serve: Serve) -> None:
    missing = [{"task": "worker-3", "why": "Pending: Unschedulable"}, {"task": "worker-4", "why": ""}]
    server = serve(always(roster({"worker": 10}, ready=7, waitingFor=missing)))
    # Much more than the first answer takes, on a busy machine too.
    barrier = start(server.url, environment(), "--check-timeout-sec", "10")
    code, last = barrier.ends()
    assert code == 201
    assert last.endswith(
        "gave up after 10 s of waiting 7/10: worker-3 Pending: Unschedulable, worker-4, 1 more (exit code 201)"
    )
    assert last.endswith(f" {barrier.termination_log.read_text()}"), last


def test_the_timeout_holds_against_a_server_that_says_nothing(start: Callable[..., Barrier], serve: Serve) -> None:
    server = serve(lambda request, reply: reply.hang())
    code, last = start(server.url, environment(BARRIER_CHECK_TIMEOUT_SEC="1")).ends()
    assert code == 201
    # The first request was still under way: when it is given up, the line says why instead.
    assert last.endswith("gave up after 1 s of waiting for the first answer of the API server (exit code 201)")
    assert len(server.requests) <= 1


@pytest.mark.parametrize("phase", ["first answer", "watch"])
def test_sigterm_exits_143_at_once(start: Callable[..., Barrier], serve: Serve, phase: str) -> None:
    def script(request: Request, reply: Reply) -> None:
        if request.watches:
            reply.stream()
        elif phase == "watch":
            reply.answer(200, configmap(roster({"worker": 2}, ready=1)))
            return
        reply.hang()

    server = serve(script)
    barrier = start(server.url, environment())
    server.is_asked(2 if phase == "watch" else 1)
    time.sleep(0.2)
    barrier.process.send_signal(signal.SIGTERM)
    code, last = barrier.ends()
    assert code == 143
    # It did not wait for the end of the request, which is a fault that the line would name.
    says = "1/2: 1 Task" if phase == "watch" else " for the first answer of the API server"
    assert re.search(rf"ended by SIGTERM after \S+ s of waiting ?{says} \(exit code 143\)$", last), last
    assert last.endswith(f" {barrier.termination_log.read_text()}"), last


def test_the_startup_probe_of_a_sidecar_succeeds_when_the_gate_opens(
    start: Callable[..., Barrier], serve: Serve, folder: Path
) -> None:
    opens = threading.Event()

    def script(request: Request, reply: Reply) -> None:
        if request.watches:
            reply.stream()
            opens.wait(60)
            reply.event("MODIFIED", configmap(roster({"worker": 2})))
            reply.hang()
        else:
            reply.answer(200, configmap(roster({"worker": 2}, ready=1)))

    barrier = start(serve(script).url, environment(FB_MODE="sidecar", FB_FRAMEWORK_JSON="never"))
    barrier.reports("waiting 1/2")
    command = ["flock", "-s", "-w", "60", str(folder), "test", "-s", str(folder / "generation")]
    with subprocess.Popen(command) as probe:
        time.sleep(0.3)
        assert probe.poll() is None
        opens.set()
        assert probe.wait(60) == 0
    barrier.process.kill()
    barrier.process.wait()
    (folder / "generation").unlink()
    # The lock is gone with the process, so the next probe fails at once.
    assert subprocess.run(command, check=False, timeout=60).returncode == 1


@pytest.mark.parametrize("mode", ["init", "sidecar"])
@pytest.mark.parametrize("after", [0.06 + 0.013 * number for number in range(16)])
def test_sigterm_ends_it_at_any_moment_of_its_start(
    start: Callable[..., Barrier], serve: Serve, mode: str, after: float
) -> None:
    barrier = start(serve(always(roster({"worker": 2}, ready=1))).url, environment(FB_MODE=mode, FB_PRESET="jax"))
    time.sleep(after)
    barrier.process.send_signal(signal.SIGTERM)
    # Before Python itself is up, nobody handles the signal, and it ends the process by its own meaning.
    assert barrier.process.wait(patience(10)) in {143, -signal.SIGTERM}


def test_as_pid_1_sigterm_ends_it(folder: Path, serve: Serve) -> None:
    server = serve(always(roster({"worker": 2}, ready=1)))
    command = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]
    process = subprocess.Popen(
        [*command, sys.executable, "-m", "frameworkbarrier"],
        env={**environment(), "PATH": os.environ["PATH"], "FB_OUTPUT_DIR": str(folder)}
        | {"KUBE_APISERVER_ADDRESS": server.url},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        assert "waiting 1/2" in process.stderr.readline()
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGTERM)
        assert process.wait(patience(10)) == 143
        assert "ended by SIGTERM" in process.stderr.read()
    finally:
        process.kill()
        process.communicate()


def test_a_generation_of_an_earlier_run_is_gone_before_the_wait(
    start: Callable[..., Barrier], serve: Serve, folder: Path
) -> None:
    (folder / "generation").write_text("7\n")
    server = serve(always(roster({"worker": 2}, ready=1)))
    start(server.url, environment())

    server.is_asked(1)
    assert not (folder / "generation").exists()


def test_a_fault_that_nobody_thought_of_exits_1_and_says_so_in_the_last_line(
    start: Callable[..., Barrier], serve: Serve, folder: Path
) -> None:
    (folder.parent / "sitecustomize.py").write_text(
        "import frameworkbarrier.gate.wait as w\n"
        "def fail(*a, **k): raise ZeroDivisionError('unthought of')\nw.wait = fail\n"
    )
    barrier = start(serve(always(roster({"worker": 1}))).url, environment(PYTHONPATH=str(folder.parent)))
    code, last = barrier.ends()
    assert code == 1
    assert "the barrier failed: ZeroDivisionError: unthought of (exit code 1)" in last
    assert last.endswith(f" {barrier.termination_log.read_text()}")


@pytest.mark.parametrize(
    ("environ", "names"),
    [
        ({"FC_TASK_INDEX": "minus one"}, "FC_TASK_INDEX"),
        ({"FB_PRESET": "caffe"}, "FB_PRESET"),
        ({"FC_FRAMEWORK_NAME": ""}, "FC_FRAMEWORK_NAME"),
        ({"FB_OUTPUT_DIR": "/nowhere"}, "FB_OUTPUT_DIR"),
        ({"FB_PORTS": "driver=2222"}, "FB_PORTS"),
        ({"KUBE_APISERVER_ADDRESS": ""}, "KUBE_APISERVER_ADDRESS"),
    ],
    ids=["index", "preset", "framework", "folder", "port of no role", "no API server"],
)
def test_bad_settings_exit_210_and_name_the_variable(
    start: Callable[..., Barrier], serve: Serve, environ: dict[str, str], names: str
) -> None:
    server = serve(always(roster({"worker": 1})))
    code, last = start(server.url, environment() | environ).ends()
    assert code == 210
    assert names in last


def test_an_unknown_flag_exits_210(start: Callable[..., Barrier]) -> None:
    code, last = start("http://127.0.0.1:9", environment(), "--nonsense").ends()
    assert code == 210
    assert "--nonsense" in last


@pytest.mark.parametrize("way", ["absent", "deleted while waiting", "of another attempt"])
def test_a_framework_attempt_that_is_over_exits_210(start: Callable[..., Barrier], serve: Serve, way: str) -> None:
    def script(request: Request, reply: Reply) -> None:
        if way == "absent":
            reply.status(404, 'configmaps "mnist-attempt" not found')
        elif request.watches:
            reply.stream()
            reply.event("DELETED", configmap(roster({"worker": 2}, ready=1), 2))
            reply.hang()
        else:
            uid = "other" if way == "of another attempt" else "cm-uid"
            reply.answer(200, configmap(roster({"worker": 2}, ready=1), 1, uid))

    code, last = start(serve(script).url, environment()).ends()
    assert code == 210
    assert "ConfigMap lab/mnist-attempt" in last
    assert "Framework attempt is over" in last


def test_a_file_that_cannot_be_written_exits_1(start: Callable[..., Barrier], serve: Serve, folder: Path) -> None:
    (folder / "hosts" / "full").mkdir(parents=True)
    code, last = start(serve(always(roster({"worker": 1}))).url, environment()).ends()
    assert code == 1
    assert "hosts" in last


def test_a_log_in_json_is_json(start: Callable[..., Barrier], serve: Serve) -> None:
    server = serve(always(roster({"worker": 2}, ready=1)))
    barrier = start(server.url, environment(FB_LOG_FORMAT="json", BARRIER_CHECK_TIMEOUT_SEC="10"))
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
    run = subprocess.run(
        [sys.executable, "-B", "-c", WATCHED],
        env=environ | {"KUBE_APISERVER_ADDRESS": serve(always(roster({"worker": 1}))).url, "TMPDIR": "/nowhere"},
        capture_output=True,
        text=True,
        check=True,
    )
    written = run.stdout.split()
    assert written.count("/nowhere/log") == 1
    others = [name for name in written if name != "/nowhere/log"]
    assert others
    assert all("/" not in name for name in others)  # relative to the folder's handle
