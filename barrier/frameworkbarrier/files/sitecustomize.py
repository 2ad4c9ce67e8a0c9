# mypy: ignore-errors
"""Keeps a program from ending before its peers want to end: in the folder of the barrier, in front of `PYTHONPATH`.

The process of rank 0 holds what its peers need to end well: the store of torch, the coordinator of JAX. So a process
waits before it closes these, and before its interpreter ends, until the barrier's sidecar lets it go. One that fails
does not wait. It runs in every Python of the application, from 3.8 on, needs nothing but the standard library, and
never makes a program fail. Source: docs/reference/barrier.md, section 9.
"""

import atexit
import contextlib
import functools
import importlib.machinery
import importlib.util
import os
import socket
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
SOCKET = os.path.join(FOLDER, "exit.sock")
JOINS, ENDS = b"+", b"h"
CALLS = {
    "torch.distributed.distributed_c10d": ("init_process_group", "destroy_process_group"),
    "jax._src.distributed": ("initialize", "shutdown"),
}
"""The modules with a rendezvous: what joins it, and what closes it."""


class Hold:
    """What this process has told the sidecar: nothing, that it is a rank, or that it wants to end."""

    def __init__(self):
        self.connection = None
        self.is_over = False

    def tell(self, word):
        """Tell the sidecar; without one nothing is held."""
        try:
            if self.connection is None:
                self.connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                self.connection.connect(SOCKET)
            self.connection.sendall(word)
        except OSError:
            self.connection = None

    def wait(self):
        """Wait until this process may end, once; not while it fails."""
        if self.is_over or sys.exc_info()[1] is not None:
            return
        self.is_over = True
        self.tell(ENDS)
        if self.connection is not None:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
            with contextlib.suppress(OSError):
                self.connection.recv(1)

    def at_end(self):
        """Wait at the end of the interpreter: of the container's own process, and of ranks."""
        has_failed = getattr(sys, "last_value", None) is not None  # nobody has caught it
        if not has_failed and (self.connection or os.environ.get("FB_EXIT_PID") == str(os.getpid())):
            self.wait()

    def exit(self, *arguments):
        """Do what `sys.exit` does; with a code that is a failure the program does not wait."""
        self.is_over = self.is_over or (bool(arguments) and arguments[0] not in (None, 0))
        sys_exit(*arguments)


class Watch:
    """Finds the modules of `CALLS` as others do, and wraps what joins and what closes once they are loaded."""

    def find_spec(self, name, path=None, target=None):
        """Find one of these modules; others are none of its business."""
        if name not in CALLS:
            return None
        finders = [finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec")]
        found = next(filter(None, (finder.find_spec(name, path, target) for finder in finders)), None)
        load = getattr(getattr(found, "loader", None), "exec_module", None)
        if load is not None:

            def exec_module(module):
                load(module)
                wrap(module, *CALLS[name])

            found.loader.exec_module = exec_module
        return found


def wrap(module, joins, closes):
    """Let the process join the others after one function of the module, and wait for them before the other."""
    join, close = getattr(module, joins, None), getattr(module, closes, None)
    if join is None or close is None:
        return

    @functools.wraps(join)
    def joining(*arguments, **named):
        result = join(*arguments, **named)
        hold.tell(JOINS)
        return result

    @functools.wraps(close)
    def closing(*arguments, **named):
        group = arguments[0] if arguments else named.get("group")
        if group is None or group is getattr(getattr(module, "GroupMember", None), "WORLD", None):
            hold.wait()
        return close(*arguments, **named)

    setattr(module, joins, joining)
    setattr(module, closes, closing)


def chain():
    """Run the `sitecustomize` that this one hides, if there is one."""
    others = [folder for folder in sys.path if os.path.abspath(folder or ".") != FOLDER]
    found = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if found is not None and found.loader is not None:
        found.loader.exec_module(importlib.util.module_from_spec(found))


hold = Hold()
sys_exit = sys.exit
if os.path.exists(SOCKET):
    atexit.register(hold.at_end)
    os.register_at_fork(after_in_child=hold.__init__)
    sys.exit = hold.exit
    sys.meta_path.insert(0, Watch())
chain()
