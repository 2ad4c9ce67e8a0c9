"""What reports the progress of PyTorch, in real interpreters beside a small `torch` with the parts that it watches."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from frameworkbarrier.files import render
from frameworkbarrier.settings import Settings
from testkit.waiting import eventually
from tests.support.waiting import becomes

SOURCE = Path(render.__file__).with_name("_frameworkprogress.py")
PYTHONS = {
    tuple(map(int, python.parts[-3].split(".")[:2])): str(python)
    for python in Path.home().glob(".pyenv/versions/3.*.*/bin/python3")
} | {sys.version_info[:2]: sys.executable}
NEW = """
hooks = []
register_optimizer_step_post_hook = hooks.append
class Optimizer:
    def __init__(self): pass
    def step(self):
        self.do()
        for hook in hooks: hook(self, (), {})
    def do(self): pass
class Adam(Optimizer): pass
class Mine(Adam): pass
"""
OLD = """
class Optimizer:
    def __init__(self): pass
class Adam(Optimizer):
    def step(self, closure=None):
        "Steps."
        self.do()
    def do(self): pass
class Mine(Adam):
    def step(self, closure=None): return super().step(closure)
"""
LIBRARIES = {
    "torch/__init__.py": "from .optim import optimizer\nfrom .serialization import save\n__version__ = 'VERSION'",
    "torch/serialization.py": "def save(thing, file=None): thing()",
    "torch/optim/__init__.py": "from .optimizer import Adam, Mine",
    "torch/distributed/__init__.py": "from .distributed_c10d import *",
    "torch/distributed/distributed_c10d.py": "def init_process_group(do=print): do()",
    "torch/distributed/checkpoint/__init__.py": "from .state_dict_saver import save",
    "torch/distributed/checkpoint/state_dict_saver.py": "def save(thing, file=None): thing()",
    "torch/utils/__init__.py": "",
    "torch/utils/data/__init__.py": "from .dataloader import DataLoader",
    "torch/utils/data/dataloader.py": """
class _BaseDataLoaderIter:
    def __init__(self): self.left = 3
    def __iter__(self): return self
    def __next__(self):
        self.left -= 1
        if self.left < 0: raise StopIteration
        return self.left
class DataLoader:
    def __iter__(self): return _BaseDataLoaderIter()
""",
    "here.py": """
import json, os, time
folder = os.path.dirname(os.environ.get("FB_PROGRESS", ""))
files = lambda: sorted(name.replace(str(os.getpid()), "PID") for name in os.listdir(folder))
def path(end=""): return "%s.%d%s" % (os.environ["FB_PROGRESS"], os.getpid(), end)
def report():
    with open(path()) as file: text = file.read()
    assert len(text) == 192 and text.endswith("\\n"), text
    return json.loads(text)
def told(*names): return [report().get(name) for name in names]
def stacks():
    with open(path(".stack")) as file: return file.read()
def rest(more=0.0):  # until the next event is written
    from _frameworkprogress import progress
    while time.monotonic() <= progress.write_at + more: time.sleep(0.01)
""",
}


class Program:
    """A folder of the barrier with a `torch`, and the programs that are started there."""

    def __init__(self, folder: Path, python: str = sys.executable, torch: str = NEW, version: str = "2.3.1") -> None:
        self.python, self.progress = python, folder / "progress"
        self.environ = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{folder / 'barrier'}:{folder / 'lib'}",
            "FB_PROGRESS": f"{self.progress}/rank",
            "FB_PROGRESS_TORCH": "1",
        }
        for name in (SOURCE.name, "sitecustomize.py"):
            (folder / "barrier").mkdir(exist_ok=True)
            (folder / "barrier" / name).write_bytes(SOURCE.with_name(name).read_bytes())
        for name, text in (LIBRARIES | {"torch/optim/optimizer.py": torch}).items():
            (folder / "lib" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "lib" / name).write_text(text.replace("VERSION", version))
        self.progress.mkdir()

    def start(self, code: str, **environ: str) -> subprocess.Popen[str]:
        command = [self.python, "-W", "error", "-c", "from here import *\n" + code]
        return subprocess.Popen(
            command, env=self.environ | environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def prints(self, code: str, **environ: str) -> str:
        process = self.start(code, **environ)
        text, _ = process.communicate(timeout=20)
        assert process.returncode == 0, text
        return text

    @property
    def left(self) -> list[str]:
        return [file.name for file in self.progress.iterdir()]


TRAIN = "import torch; from torch.optim import *; a = Adam(); "
GAN = TRAIN + "b = Mine()\nfor _ in range(3): a.step(); rest(); b.step(); rest()\n"
FORK = "os.fork() or os._exit(0); os.wait(); a.step(); print(*told('step', 'alive'))"
TORCHES = {"hook": (NEW, "2.3.1"), "no hook": (OLD, "1.13.0a0"), "a hook that is removed": (NEW, "2.1.0+cpu")}


@pytest.mark.parametrize("torch", TORCHES)
@pytest.mark.parametrize("python", [PYTHONS[version] for version in sorted(PYTHONS) if version >= (3, 8)])
def test_every_python_counts_all_steps_of_every_torch_and_may_fork(python: str, torch: str, tmp_path: Path) -> None:
    program = Program(tmp_path, python, *TORCHES[torch])
    assert program.prints(GAN + FORK) == "7 7\n"
    assert not program.left, "they are removed at the end"


REPORTS = {
    "no torch": (
        "import sys; print({'torch', 'fcntl', 'inspect', '_frameworkprogress'} & sys.modules.keys())",
        "set()",
    ),
    "no step": ("import torch; torch.optim.Adam(); print(files())", "[]"),
    "a step": (TRAIN + "a.step(); r = report(); print(r['step'], 'section' in r, 'checkpoint' in r)", "1 False False"),
    "the thread": (
        TRAIN + "import _thread; a.step(); print(told('thread') == ['0x%016x' % _thread.get_ident()], files())",
        "True ['rank.PID', 'rank.PID.stack']",
    ),
    "a checkpoint": (
        TRAIN + "a.step(); rest(); a.step(); show = lambda: print(*told('step', 'section', 'checkpoint'))\n"
        "torch.save(show); show()",
        "2 checkpoint None\n2 None 2",
    ),
    "a checkpoint within another": (
        TRAIN + "import torch.distributed.checkpoint as c; a.step(); c.save(lambda: torch.save(a.step))\n"
        "print(*told('step', 'section', 'checkpoint'))",
        "2 None 1",
    ),
    "a checkpoint that fails": (
        TRAIN + "a.step()\ntry: torch.save(lambda: 1 / 0)\n"
        "except ZeroDivisionError: print(*told('section', 'checkpoint'))",
        "None None",
    ),
    "a checkpoint in the background": (
        TRAIN + "import threading; a.step()\n"
        "t = threading.Thread(target=torch.save, args=(lambda: print(told('section')),)); t.start(); t.join(); "
        "print(*told('checkpoint'))",
        "[None]\n1",
    ),
    "pickled": ("import torch, pickle; print(pickle.loads(pickle.dumps(torch.save)) is torch.save)", "True"),
    "batches": (
        TRAIN + "from torch.utils.data import *; i = iter(DataLoader()); next(i); a.step(); rest(); next(i); "
        "print(type(i).__name__, list(i), files()); rest(); a.step(); print(*told('step', 'alive'))",
        "_BaseDataLoaderIter [0] ['rank.PID', 'rank.PID.stack']\n2 4",
    ),
    "a step right after a batch": (
        TRAIN + "from torch.utils.data import *; i = iter(DataLoader()); a.step(); rest(0.1); next(i)\n"
        "print(*told('step', 'alive')); rest(); next(i); a.step(); print(*told('step', 'alive'))",
        "1 2\n2 4",
    ),
    "before the first step": (
        "import torch.distributed as d; d.init_process_group(lambda: print(files()))",
        "['rank.PID.stack']",
    ),
    "a forked child": (
        TRAIN + "a.step(); p = os.fork()\nif not p: print('PID' in str(files()), flush=True); os._exit(0)\n"
        "os.waitpid(p, 0); print(len(files()))",
        "False\n2",
    ),
    "a forked child that trains": (
        TRAIN + "import multiprocessing as m; a.step(); rest(); a.step()\n"
        "def child(): a.step(); print(*told('step'), flush=True)\n"
        "p = m.get_context('fork').Process(target=child); p.start(); p.join(); print(*told('step'), files())",
        "1\n2 ['rank.PID', 'rank.PID.stack']",
    ),
    "all files closed": (
        TRAIN + "a.step(); os.closerange(3, 100); f = open('/dev/shm/x%d' % os.getpid(), 'wb+')\n"
        "g = os.dup(f.fileno()); os.unlink(f.name)\n"
        "for _ in range(2): rest(); a.step()\nprint(f.read()); f.close(); os.close(g)",
        "b''",
    ),
    "faulthandler": ("import faulthandler as f; print(f.dump_traceback_later.__name__)", "dump_traceback_later"),
}


@pytest.mark.parametrize(("code", "printed"), REPORTS.values(), ids=REPORTS)
def test_a_report_says_what_the_program_does(code: str, printed: str, tmp_path: Path) -> None:
    assert Program(tmp_path).prints(code) == f"{printed}\n"


@pytest.mark.parametrize(
    ("environ", "reports"),
    [
        ({"FB_PROGRESS_TORCH": "0"}, False),
        ({"FB_PROGRESS": ""}, False),
        ({"FB_PROGRESS": "/nowhere/rank"}, False),
        ({"FB_PROGRESS": "/proc/rank"}, False),
        *[({"FB_PROGRESS_STACK_SEC": bad}, True) for bad in ("", "x", "nan", "inf", "-1", "0", "1e300")],
    ],
    ids=str,
)
def test_no_environment_makes_a_program_fail(environ: dict[str, str], reports: bool, tmp_path: Path) -> None:
    program = Program(tmp_path)
    code = f"import os; seen = len(os.listdir({str(program.progress)!r}))\nprint(seen)"
    assert program.prints(f"{TRAIN}a.step(); torch.save(a.step); {code}", **environ) == ("2\n" if reports else "0\n")


def test_the_stacks_of_a_program_that_hangs_are_there_until_it_moves_again(tmp_path: Path) -> None:
    program = Program(tmp_path)
    code = TRAIN + "a.step(); print(len(stacks()))\ndef hangs(): time.sleep(0.7)\nhangs(); s = stacks()\n"
    code += "print('hangs' in s, told('thread')[0] in s); a.step(); print(len(stacks()))"
    assert program.prints(code, FB_PROGRESS_STACK_SEC="0.4") == "0\nTrue True\n0\n"
    moves = "a.step()\nfor _ in range(20): time.sleep(0.05); a.step()\nprint(len(stacks()))"
    assert program.prints(TRAIN + moves, FB_PROGRESS_STACK_SEC="0.4") == "0\n"


@pytest.mark.parametrize("use", ["f.dump_traceback_later(0.3, file=out)", "f.cancel_dump_traceback_later()"])
def test_a_program_that_uses_faulthandler_by_itself_is_left_alone(use: str, tmp_path: Path) -> None:
    program = Program(tmp_path)
    code = f"{TRAIN}import faulthandler as f; out = open('{tmp_path / 'own'}', 'w+'); a.step(); {use}\n"
    code += "for _ in range(12): time.sleep(0.05); a.step()\nprint(len(stacks()), out.seek(0, 2) > 0); out.close()"
    expected = f"0 {use.startswith('f.dump')}\n"
    assert program.prints(code, FB_PROGRESS_STACK_SEC="0.4") == expected


def test_a_program_that_waits_for_data_after_a_fork_has_stacks(tmp_path: Path) -> None:
    code = TRAIN + "from torch.utils.data import *; i = iter(DataLoader()); a.step()\n"
    code += "class Late:\n    def __sub__(self, one): time.sleep(0.7); print('__sub__' in stacks()); return 0\n"
    code += "i.left = Late(); os.fork() or os._exit(0); os.wait(); next(i)"
    assert Program(tmp_path).prints(code, FB_PROGRESS_STACK_SEC="0.4") == "True\n"


def test_a_report_of_another_process_of_the_same_number_is_left_alone_while_that_is_there(tmp_path: Path) -> None:
    code = TRAIN + "import fcntl; f = open(path(), 'w+'); f.write('7'); f.flush(); fcntl.flock(f, fcntl.LOCK_EX)\n"
    code += "for _ in range(2): a.step(); rest()\n"
    code += "f.seek(0); print(f.read(), len(os.listdir('/proc/self/fd'))); f.close(); a.step(); print(*told('step'))"
    # Three of the interpreter, the other's, that of the stacks, and the one that lists them.
    assert Program(tmp_path).prints(code) == "7 6\n3\n"


def test_a_killed_process_leaves_a_report_that_is_no_longer_locked(tmp_path: Path) -> None:
    program = Program(tmp_path)
    process = program.start(
        TRAIN + "a.step(); os.fork() or (time.sleep(2), os._exit(0))\nwhile True: time.sleep(0.01); a.step()"
    )
    report = program.progress / f"rank.{process.pid}"

    def steps() -> None:
        assert report.exists()
        assert json.loads(report.read_text())["step"] > 3

    def is_locked() -> bool:
        return subprocess.run(["flock", "-n", "-s", str(report), "true"], check=False).returncode == 1

    eventually(steps, interval=0.05)
    assert is_locked()
    process.send_signal(signal.SIGKILL)
    process.wait()
    becomes(is_locked, wanted=False)
    assert report.exists()
    process.communicate(timeout=20)


SWITCHED_ON: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, ""),
    "other sources": ({"progress": ("file", "http")}, ""),
    "torch": ({"progress": ("file", "torch")}, "FB_PROGRESS_TORCH=1 FB_PROGRESS_STACK_SEC=60"),
    "a small floor": (
        {"progress": ("torch",), "hang_floor_sec": 1},
        "FB_PROGRESS_TORCH=1 FB_PROGRESS_STACK_SEC=1",
    ),
    "exit": ({"exit": "together"}, "FB_EXIT_PID=$$ FB_EXIT_WAIT_SEC=660"),
    "both": (
        {"exit": "together", "progress": ("torch",)},
        "FB_EXIT_PID=$$ FB_EXIT_WAIT_SEC=660 FB_PROGRESS_TORCH=1 FB_PROGRESS_STACK_SEC=60",
    ),
}


@pytest.mark.parametrize(("given", "exported"), SWITCHED_ON.values(), ids=SWITCHED_ON)
def test_the_start_of_the_container_switches_it_on(given: dict[str, Any], exported: str) -> None:
    script = render._run_script(Settings(**given))
    lines = [line for line in script.splitlines() if line.startswith("export ")]
    export = f'export PYTHONPATH="${{0%/*}}${{PYTHONPATH:+:$PYTHONPATH}}" {exported}'
    assert lines == ([export] if exported else [])
    assert script.endswith('\nexec "$@"\n')
