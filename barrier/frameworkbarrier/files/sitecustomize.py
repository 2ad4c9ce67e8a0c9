# mypy: ignore-errors
"""Keeps a program from ending before its peers want to end: in the folder of the barrier, in front of `PYTHONPATH`.

With `FB_PROGRESS_TORCH` it also loads `_frameworkprogress` where torch is, which reports how far the program is.

The process of rank 0 holds what its peers need to end well: the store of torch, the coordinator of JAX. So a process
waits before it closes these, and before its interpreter ends, until the barrier's sidecar lets it go. One that fails
does not wait. It runs in every Python of the application, from 3.8 on, needs nothing but the standard library, of which
it loads little before the program does, and never makes a program fail. Source: docs/reference/barrier.md, section 9.
"""

import _thread
import atexit
import builtins
import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
SOCKET = os.path.join(FOLDER, "exit.sock")
JOINS, ENDS = b"+", b"h"
CALLS = {
    "torch.distributed.distributed_c10d": ("init_process_group", "destroy_process_group"),
    "jax._src.distributed": ("initialize", "shutdown"),
}
"""The modules with a rendezvous: what joins it, and what closes it."""
MAIN_THREAD = _thread.get_ident()


class Hold:
    """What this process has told the sidecar: nothing, that it is a rank, or that it wants to end."""

    def __init__(self):
        self.connection = None
        self.is_over = False

    def tell(self, word):
        """Tell the sidecar, of which there may be another one meanwhile; without one nothing is held."""
        import socket

        for _ in range(2):
            try:
                if self.connection is None:
                    self.connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                    self.connection.connect(SOCKET)
                self.connection.send(word, getattr(socket, "MSG_NOSIGNAL", 0))
            except OSError:
                self.leave()
            else:
                return

    def leave(self):
        """Close the connection."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()

    def begin_anew(self):
        """Begin in a child that was forked: the connection is that of its parent."""
        self.leave()
        self.__init__()

    def wait(self):
        """Wait until this process may end, once; not while it fails, or if it has."""
        # An exception that nobody has caught is no longer handled when the functions of `atexit` run.
        if self.is_over or sys.exc_info()[1] is not None or getattr(sys, "last_value", None) is not None:
            return
        self.is_over = True
        progress = sys.modules.get("_frameworkprogress")
        if progress is not None:  # its work is done: that it is silent from now on is no hang
            progress.end()
        self.tell(ENDS)
        if self.connection is None:
            return
        try:  # noqa: SIM105 -- contextlib would be loaded before the program does
            sys.stdout.flush()
        except Exception:  # noqa: BLE001, S110 -- it is closed, or nobody reads it
            pass
        end_by_sigterm()
        try:
            self.connection.settimeout(float(os.environ.get("FB_EXIT_WAIT_SEC", "660")))
            self.connection.recv(1)
        except (OSError, ValueError):
            pass

    def at_end(self):
        """Wait at the end of the interpreter: of the container's own process, and of ranks."""
        if self.connection is not None or os.environ.get("FB_EXIT_PID") == str(os.getpid()):
            self.wait()

    def note(self, code):
        """Note how the main thread wants to exit: the program does not wait if that is a failure."""
        if code not in (None, 0) and _thread.get_ident() == MAIN_THREAD:
            self.is_over = True


class Watch:
    """Finds the modules of `calls` as others do, and calls these functions with them once they are loaded."""

    def __init__(self):
        self.calls, self.stacks = {}, None

    def find_spec(self, name, path=None, target=None):
        """Find one of these modules; others are none of its business."""
        if name == "torch" and self.stacks is not None:
            stacks, self.stacks = self.stacks, None
            try:
                import _frameworkprogress

                _frameworkprogress.begin(self.calls, stacks)
            except Exception:  # noqa: BLE001, S110 -- nothing is reported
                pass
        if name not in self.calls:
            return None
        finders = [finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec")]
        found = next(filter(None, (finder.find_spec(name, path, target) for finder in finders)), None)
        load = getattr(getattr(found, "loader", None), "exec_module", None)

        def exec_module(module):
            load(module)
            for call in self.calls[name]:
                call(module)

        try:
            if load is not None:
                found.loader.exec_module = exec_module
        except AttributeError:  # a loader without a place for it: nothing is held
            pass
        return found


def wrap(module):
    """Let the process join the others after one function of the module, and wait for them before the other."""
    import functools

    joins, closes = CALLS[module.__name__]
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


def end_by_sigterm():
    """End by SIGTERM where nothing else handles it: the first process of a container would ignore it."""
    import signal

    if _thread.get_ident() == MAIN_THREAD and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda number, _frame: os._exit(128 + number))


def note_exits():
    """Note the code where a program exits by `sys.exit`, `exit` or `quit`."""
    sys_exit, quitter = sys.exit, type(getattr(builtins, "exit", None))

    def exit(*arguments):  # noqa: A001 -- it takes the place of that
        hold.note(*arguments[:1] or (None,))
        sys_exit(*arguments)

    # Pickled by its name, as what it stands for.
    exit.__module__, exit.__qualname__, exit.__doc__ = "sys", "exit", sys_exit.__doc__
    sys.exit = exit
    if quitter.__name__ == "Quitter":
        call = quitter.__call__

        def quit(self, code=None):  # noqa: A001 -- as above
            hold.note(code)
            call(self, code)

        quitter.__call__ = quit


def chain():
    """Run the `sitecustomize` that this one hides, if there is one, in its place."""
    from importlib.machinery import PathFinder

    others = [folder for folder in sys.path if os.path.abspath(folder or ".") != FOLDER]
    found = PathFinder.find_spec("sitecustomize", others)
    if found is not None and found.loader is not None:
        module = type(sys)("sitecustomize")
        module.__spec__, module.__file__, module.__loader__ = found, found.origin, found.loader
        sys.modules["sitecustomize"] = module
        found.loader.exec_module(module)


class Stacks:
    """What `faulthandler` has once in a process, the stacks of later, and whether the program uses that by itself."""

    def __init__(self):
        self.is_taken = False
        self.later, self.cancel = map(self.watched, ("dump_traceback_later", "cancel_dump_traceback_later"))

    def watched(self, name):
        """Return the function, and put one in its place that notes the use."""
        import faulthandler

        function = getattr(faulthandler, name)

        def called(*arguments, **named):
            self.is_taken = True
            return function(*arguments, **named)

        called.__module__, called.__name__, called.__qualname__ = "faulthandler", name, name
        called.__doc__ = function.__doc__
        setattr(faulthandler, name, called)
        return function


def watch():
    """Do what the barrier asks for."""
    found = Watch()
    if os.path.exists(SOCKET):
        atexit.register(hold.at_end)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=hold.begin_anew)
        note_exits()
        found.calls.update((name, [wrap]) for name in CALLS)
    if os.environ.get("FB_PROGRESS") and os.environ.get("FB_PROGRESS_TORCH") == "1":
        found.stacks = Stacks()
    if found.calls or found.stacks:
        sys.meta_path.insert(0, found)


# Once: somebody may load it again, or one that is chained may chain back.
if not hasattr(sys, "_frameworkbarrier"):
    hold = sys._frameworkbarrier = Hold()
    watch()
    chain()
