"""Processes that end together, as the sidecar and real interpreters do it (docs/reference/barrier.md, section 9)."""

import ast
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from frameworkbarrier.errors import SettingsError
from frameworkbarrier.files import exits, render
from frameworkbarrier.files.exits import Exits
from frameworkbarrier.files.output import OutputDirectory
from frameworkbarrier.gate.gate import Gatekeeper, Released, Waiting
from frameworkbarrier.log import Log
from frameworkbarrier.settings import EXIT_HELD, EXIT_SOCKET, OwnTask, Settings
from tests.barrier.gangs import observation, roster
from tests.support.waiting import becomes

HELD = Path(render.__file__).with_name("sitecustomize.py")
LIBRARIES = {
    "torch/distributed/distributed_c10d.py": """
class GroupMember: WORLD = object()
def init_process_group(): print("joined", flush=True)
def destroy_process_group(group=None): print("destroyed", flush=True)
""",
    "torch/distributed/__init__.py": "from .distributed_c10d import *\nfrom .distributed_c10d import GroupMember",
    "torch/__init__.py": "",
    "sitecustomize.py": 'import os; os.environ["CHAINED"] = "yes"; MINE = "mine"',
}
TORCH = "import torch.distributed as dist; dist.init_process_group(); "


class Pod:
    """The folder of a sidecar that listens, and the processes of an application beside it."""

    def __init__(self, folder: Path, timeout_sec: int = 600, *, is_open: bool = True) -> None:
        self.folder = folder
        self._output = OutputDirectory(str(folder))
        self.exits = Exits(self._output, timeout_sec, Log())
        self.exits.listen()
        if is_open:
            self.let_go(may_end=False)
        (folder / "sitecustomize.py").write_bytes(HELD.read_bytes())
        (folder / "injector.sh").touch()
        (folder / "run").write_text(render._run_script(Settings(exit="together")))
        (folder / "run").chmod(0o755)
        for name, text in LIBRARIES.items():
            (folder / "lib" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "lib" / name).write_text(text)
        self._running: list[subprocess.Popen[str]] = []

    def run(self, code: str, *, shell: bool = False) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", code]
        started = subprocess.Popen(
            [str(self.folder / "run"), *(["/bin/sh", "-c", '"$@"; exit $?', "sh"] if shell else []), *command],
            env=os.environ | {"PYTHONPATH": str(self.folder / "lib")},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._running.append(started)
        return started

    def sees(self, gatekeeper: Gatekeeper, document: dict[str, Any]) -> Released | Waiting:
        gatekeeper.listeners = [self.exits.hear]
        return gatekeeper.decide(observation(document))

    def let_go(self, *, may_end: bool) -> None:
        self.sees(Gatekeeper(OwnTask(None, None, None)), roster({"worker": 2}, mayEnd=may_end))

    @property
    def is_held(self) -> bool:
        return (self.folder / EXIT_HELD).exists()

    def becomes_held(self) -> None:
        becomes(lambda: self.is_held, wanted=True, interval=0.02)

    def holds(self, code: str, *, shell: bool = False) -> subprocess.Popen[str]:
        """Run a program, and wait until the Pod wants to end; it stays."""
        process = self.run(code, shell=shell)
        self.becomes_held()
        assert process.poll() is None
        return process

    def end(self) -> None:
        self.let_go(may_end=True)
        for one in self._running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                one.communicate(timeout=1)
            # Also what a shell has started, which would keep the pipe open.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGKILL)
            one.communicate()


@pytest.fixture
def pod_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pod]:
    monkeypatch.setattr(exits, "TOLD_AFTER_SEC", 0.0)
    pod = Pod(tmp_path)
    yield pod
    pod.end()


def ends(process: subprocess.Popen[str]) -> tuple[int, str]:
    text, _ = process.communicate(timeout=20)
    return process.returncode, text


STAYS = {
    "a program": ("import os; print(os.environ['CHAINED'])", "yes\n"),
    "it exits": ("import sys; sys.exit(0)", ""),
    "a thread exits": (
        "import threading, sys; t = threading.Thread(target=sys.exit, args=(1,)); t.start(); t.join()",
        "",
    ),
    "pickled": ("import pickle, sys; print(pickle.loads(pickle.dumps(sys.exit)) is sys.exit)", "True\n"),
    "loaded again": ("import importlib, sitecustomize; importlib.reload(sitecustomize); import torch.distributed", ""),
    "chained": ("import sitecustomize; print(sitecustomize.MINE)", "mine\n"),
    "little is loaded": ("import sys; print({'socket', 'selectors', 'contextlib'} & sys.modules.keys())", "set()\n"),
    "the group is destroyed": (TORCH + "print(dist.destroy_process_group())", "joined\ndestroyed\nNone\n"),
    "the whole group by name": (TORCH + "dist.destroy_process_group(dist.GroupMember.WORLD)", "joined\ndestroyed\n"),
    "only its end": (TORCH, "joined\n"),
}


@pytest.mark.parametrize(("code", "printed"), STAYS.values(), ids=STAYS)
def test_a_process_stays_until_it_is_let_go(code: str, printed: str, pod_here: Pod) -> None:
    process = pod_here.holds(code)
    pod_here.let_go(may_end=True)
    assert ends(process) == (0, printed)
    assert ends(pod_here.run(code)) == (0, printed), "as long as they may end"
    pod_here.let_go(may_end=False)
    pod_here.holds(code)


def test_a_process_that_waits_for_its_peers_reports_no_more(pod_here: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its silence, while the others ended, was called a hang of the gang."""
    (pod_here.folder / "_frameworkprogress.py").write_bytes(HELD.with_name("_frameworkprogress.py").read_bytes())
    reports = pod_here.folder / "progress"
    reports.mkdir()
    monkeypatch.setenv("FB_PROGRESS", f"{reports}/rank")
    monkeypatch.setenv("FB_PROGRESS_TORCH", "1")
    code = f"import os; print(len(os.listdir('{reports}'))); dist.destroy_process_group()"
    process = pod_here.holds(TORCH + code)
    assert not [*reports.iterdir()]
    pod_here.let_go(may_end=True)
    assert ends(process) == (0, "joined\n1\ndestroyed\n")


FAILS = {
    "an exception": ("1 / 0", 1),
    "a code": ("import sys; sys.exit(3)", 3),
    "a message": ("import sys; sys.exit('no')", 1),
    "finally": (TORCH + "\ntry: 1 / 0\nfinally: dist.destroy_process_group()", 1),
    "at the end, after an exception": (TORCH + "import atexit; atexit.register(dist.destroy_process_group); 1 / 0", 1),
    "exit": ("exit(2)", 2),
    "without an end": ("import os; os._exit(0)", 0),
}


@pytest.mark.parametrize(("code", "status"), FAILS.values(), ids=FAILS)
def test_who_fails_does_not_wait(code: str, status: int, pod_here: Pod) -> None:
    assert ends(pod_here.run(code))[0] == status
    assert not pod_here.is_held


def test_a_part_of_the_group_may_be_destroyed(pod_here: Pod) -> None:
    process = pod_here.run(TORCH + "dist.destroy_process_group(object()); print('on', flush=True); input()")
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(3)] == ["joined\n", "destroyed\n", "on\n"]
    assert not pod_here.is_held


def test_a_pod_wants_to_end_when_all_of_its_ranks_do(pod_here: Pod) -> None:
    late = "import os, time\nwhile not os.path.exists('{}'): time.sleep(0.02)\n".format(pod_here.folder / "go")
    first, second = pod_here.run(TORCH, shell=True), pod_here.run(TORCH + "print(flush=True)\n" + late, shell=True)
    assert second.stdout is not None
    # What it says while it joins, and once it has.
    assert [second.stdout.readline(), second.stdout.readline()] == ["joined\n", "\n"]
    other = pod_here.run("pass", shell=True)
    assert ends(other) == (0, ""), "neither a rank nor the container's own process"
    assert not pod_here.is_held
    (pod_here.folder / "go").touch()
    pod_here.becomes_held()
    pod_here.let_go(may_end=True)
    assert (ends(first)[0], ends(second)[0]) == (0, 0)


def test_a_program_that_is_not_python_ends_as_it_would_alone(pod_here: Pod) -> None:
    command = [str(pod_here.folder / "run"), "/bin/sh", "-c", 'echo "$FB_EXIT_WAIT_SEC"; exit "$1"', "sh"]
    for code in (0, 3):
        alone = subprocess.run([*command, str(code)], capture_output=True, text=True, check=False, timeout=20)
        assert (alone.returncode, alone.stdout, alone.stderr) == (code, "660\n", "")
    assert not pod_here.is_held
    # Its container stays as long as a rank that it has started and waits for.
    process = pod_here.holds(TORCH, shell=True)
    pod_here.let_go(may_end=True)
    assert ends(process)[0] == 0


def test_children_do_not_wait_and_signals_end_who_waits(pod_here: Pod) -> None:
    children = "import multiprocessing as m, subprocess, sys; subprocess.run([sys.executable, '-c', 'pass'])\n"
    process = pod_here.holds(children + "p = m.get_context('fork').Process(target=print); p.start(); p.join()")
    process.send_signal(signal.SIGTERM)
    assert ends(process)[0] == 128 + signal.SIGTERM
    becomes(lambda: pod_here.is_held, wanted=False)


def test_nobody_waits_for_longer_than_the_timeout(tmp_path: Path) -> None:
    pod = Pod(tmp_path, timeout_sec=1)
    assert ends(pod.run("pass")) == (0, "")
    started = time.monotonic()
    assert ends(pod.run("pass")) == (0, "")
    assert time.monotonic() - started < 1, "nobody waits any more"
    pod.end()


def test_that_a_program_wants_to_end_is_told_some_seconds_after_the_gate_has_opened(tmp_path: Path) -> None:
    pod = Pod(tmp_path)
    process = pod.run("pass")
    time.sleep(1)
    assert not pod.is_held
    pod.becomes_held()
    assert process.poll() is None
    pod.end()


def test_without_a_sidecar_nobody_waits(tmp_path: Path) -> None:
    pod = Pod(tmp_path)
    (tmp_path / EXIT_SOCKET).unlink()
    assert ends(pod.run("print(1)")) == (0, "1\n")
    pod.end()


def test_a_stranger_at_the_socket_holds_nobody_and_takes_little(pod_here: Pod) -> None:
    crowd = []
    for _ in range(exits.MAX_PROCESSES + 50):
        one = socket.socket(socket.AF_UNIX)
        one.connect(str(pod_here.folder / EXIT_SOCKET))
        one.sendall(b"+" if len(crowd) % 2 else b"x" * 8)
        crowd.append(one)
    process = pod_here.run("pass")
    pod_here.let_go(may_end=True)
    for one in crowd:
        one.close()
    assert ends(process)[0] == 0


def test_a_path_that_is_too_long_for_a_socket_is_an_error_of_the_settings(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 100)
    folder.mkdir()
    with OutputDirectory(str(folder)) as output, pytest.raises(SettingsError, match="FB_EXIT: cannot listen"):
        Exits(output, 1, Log()).listen()


@pytest.mark.parametrize("program", [HELD, HELD.with_name("_frameworkprogress.py")], ids=lambda file: file.name)
def test_a_program_in_front_of_others_is_one_of_python_3_8(program: Path) -> None:
    ast.parse(program.read_text(), feature_version=(3, 8))


def test_the_program_in_front_of_others_says_what_the_sidecar_hears() -> None:
    text = HELD.read_text()
    assert f"JOINS, ENDS = {exits.JOINS!r}, {exits.ENDS!r}".replace("'", '"') in text.replace("'", '"')
    assert f'"{EXIT_SOCKET}"' in text


def test_a_roster_of_before_lets_nobody_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exits, "TOLD_AFTER_SEC", 0.0)
    pod = Pod(tmp_path, is_open=False)
    process = pod.run("pass")
    becomes(lambda: any(pod.exits._waits.values()), wanted=True, interval=0.02)
    own = OwnTask("worker", 0, "another-pod", None)
    assert isinstance(pod.sees(Gatekeeper(own), roster({"worker": 2}, mayEnd=True)), Waiting)
    time.sleep(0.2)
    pod.let_go(may_end=False)
    pod.becomes_held()
    assert process.poll() is None
    pod.end()


def test_a_gang_that_has_lost_a_member_may_end(pod_here: Pod) -> None:
    process = pod_here.holds("pass")
    pod_here.sees(Gatekeeper(OwnTask(None, None, None)), roster({"worker": 2}, ready=1, mayEnd=True))
    assert ends(process)[0] == 0
