# mypy: ignore-errors
"""Reports how far the training of a PyTorch program is: beside `sitecustomize.py`, which loads it, for the sidecar.

It counts optimizer steps (all, of whichever optimizer, in this process), notes checkpoints, takes batches of data as
signs of life, and keeps `faulthandler` ready to write the stacks of a process that no longer moves. A process is
reported from its first step on, so that neither a launcher nor a worker of a `DataLoader` is. Nothing in here makes a
program fail: what does not work is not reported. Source: docs/reference/progress.md, section 2.
"""

import _thread
import os
import sys
import time

PATH = os.environ.get("FB_PROGRESS", "")
WIDTH = 191
"""The report is one line of this many bytes, padded, so that it is written in place at once."""
SHARE, LONGEST_PAUSE_SEC = 0.01, 1.0
"""Writing takes this share of the time at most: the pause after a write is as long as that asks, up to the second."""
BATCH_PAUSE_SEC = 0.1
"""A batch waits for longer, so that the step after it is the one that is written."""
DEFAULT_STACK_SEC = 60.0


def stack_sec():
    """Return after how many seconds without a move the stacks are written."""
    try:
        seconds = float(os.environ["FB_PROGRESS_STACK_SEC"])
    except (KeyError, ValueError):
        return DEFAULT_STACK_SEC
    return seconds if 0 < seconds < 1e6 else DEFAULT_STACK_SEC


class File:
    """A file of this process, open while nobody else has closed it; locked, so that the end of the process is seen."""

    def __init__(self, end="", flags=0):
        import fcntl

        self.name = f"{PATH}.{os.getpid()}{end}"
        self.number = os.open(self.name, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | flags, 0o644)
        self.identity = os.fstat(self.number)[1:3]
        try:
            # Another container may have a process of this number: its files are left as they are.
            fcntl.flock(self.number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self.number, 0)
            os.fchmod(self.number, 0o644)  # whatever the umask: the sidecar may be another user
        except OSError:
            self.close(remove=False)
            raise

    def size(self):
        """Return how long it is; fail where its number is another file's, since a program may close all it finds."""
        found = os.fstat(self.number)
        if found[1:3] != self.identity:
            raise OSError(self.name)
        return found.st_size

    def close(self, *, remove):
        """Close it."""
        try:
            self.size()
            os.close(self.number)
            if remove:
                os.unlink(self.name)
        except OSError:
            pass


class Progress:
    """What this process has done so far."""

    def __init__(self):
        self.is_rank = False
        self.step = self.alive = self.thread = 0
        self.section = self.checkpoint = None
        self.report = self.stacks = None
        self.write_at = self.arm_at = 0.0

    def stepped(self, *_):
        """Count a step of an optimizer."""
        self.step += 1
        self.thread = _thread.get_ident()
        if self.step == 1:
            self.join()
        self.move()

    def move(self, pause=0.0):
        """Report that the program is alive, after a pause that is longer than others; below zero, at once."""
        self.alive += 1
        now = time.monotonic()
        if self.step and (pause < 0 or now >= self.write_at + pause):
            self.write(now)
        if now >= self.arm_at:
            self.arm(now)

    def write(self, now):
        """Write the report, its step in front: so few bytes are never read half written."""
        self.write_at = now + LONGEST_PAUSE_SEC  # where it fails
        if self.report is None:
            self.report = File()
        self.report.size()
        text = f'{{"step": {self.step}, "alive": {self.alive}, "thread": "0x{self.thread:016x}"'
        if self.checkpoint is not None:
            text += f', "checkpoint": {self.checkpoint}'
        if self.section is not None:
            text += f', "section": "{self.section}"'
        os.pwrite(self.report.number, (text + "}").ljust(WIDTH).encode() + b"\n", 0)
        self.write_at = now + min((time.monotonic() - now) / SHARE, LONGEST_PAUSE_SEC)

    def arm(self, now):
        """Let the stacks be written unless the program moves again, and forget those of before."""
        self.arm_at = now + EVERY_SEC
        if stacks_later.is_taken or not self.is_rank:
            return
        if self.stacks is None:
            self.stacks = File(".stack", os.O_APPEND)
        if self.stacks.size():
            os.ftruncate(self.stacks.number, 0)
        stacks_later.later(STACK_SEC, repeat=False, file=self.stacks.number)

    def join(self):
        """Watch this process from now on: it trains, or joins those that do, and may hang there."""
        global is_prepared  # noqa: PLW0603 -- children that are forked have the handlers, too
        if not self.is_rank:
            self.is_rank = True
            if not is_prepared:
                import atexit

                is_prepared = True
                atexit.register(self.end)
                os.register_at_fork(before=self.before_fork, after_in_child=self.begin_anew)
            if "multiprocessing.util" in sys.modules:  # its children end without `atexit`
                sys.modules["multiprocessing.util"].Finalize(None, self.end, exitpriority=-100)
        self.wait()

    def wait(self):
        """Watch again after a fork: the program may hang for a batch."""
        if self.is_rank and not self.arm_at:
            self.arm(time.monotonic())

    def batch(self):
        """Take a batch of data as a sign of life."""
        if self.is_rank:
            self.move(BATCH_PAUSE_SEC)

    def begin_save(self):
        """Begin to save a checkpoint; return of which step, and what `end_save` restores."""
        begun = self.step, self.section, self.is_rank and self.thread in (0, _thread.get_ident())
        if begun[2]:
            self.section = "checkpoint"
            self.move(-1)
        return begun

    def end_save(self, begun, *, is_saved):
        """End it."""
        step, section, is_own_thread = begun
        if is_saved:
            self.checkpoint = max(step, self.checkpoint or 0)
        if is_own_thread:
            self.section = section
        if self.is_rank:
            self.move(-1)

    def before_fork(self):
        """Disarm: the child would wait for a thread that it does not have, and Python warns of threads."""
        if self.arm_at and not stacks_later.is_taken:
            stacks_later.cancel()
            self.arm_at = 0.0

    def begin_anew(self, *, remove=False):
        """Begin in a child that was forked: the files are those of its parent."""
        for file in (self.report, self.stacks):
            if file is not None:
                file.close(remove=remove)
        self.__init__()

    def end(self):
        """Remove the files, so that a process that has ended holds nobody up."""
        self.before_fork()
        self.begin_anew(remove=True)


def quiet(function):
    """Return the function without its errors."""

    def call(*arguments, **named):
        try:
            return function(*arguments, **named)
        except Exception:  # noqa: BLE001 -- the program goes on whatever fails here
            return None

    call._torchdynamo_disable, call._torchdynamo_disable_msg = True, None  # never compiled into a graph
    return call


def watch_steps(module):
    """Count by the public hook where nothing removes it: `torch.compile` of 2.0 to 2.2 did, and 1.13 has none."""
    version = [int(part) for part in getattr(sys.modules["torch"], "__version__", "2.3").split(".")[:2]]
    register = getattr(module, "register_optimizer_step_post_hook", None)
    if register is not None and version >= [2, 3]:
        register(stepped)
        return
    import functools

    make = module.Optimizer.__init__

    @functools.wraps(make)
    def making(self, *arguments, **named):
        make(self, *arguments, **named)
        watch_class(type(self))

    module.Optimizer.__init__ = making


@quiet
def watch_class(kind):
    """Count the steps of a class of optimizers, once if it calls the step of its base."""
    import inspect

    step = kind.step
    if hasattr(step, "_is_counted"):
        return

    def counted(*arguments, **named):
        before = count()
        result = step(*arguments, **named)
        if count() == before:
            stepped()
        return result

    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(counted, name, getattr(step, name))
    # Not by `functools.wraps`: `torch.compile` takes off what has `__wrapped__`.
    counted.__signature__, counted.hooked, counted._is_counted = inspect.signature(step), True, True
    kind.step = counted


def watch_saves(module):
    """Note the checkpoints of a module's functions."""
    import functools

    def watched(save):
        @functools.wraps(save)
        def saving(*arguments, **named):
            begun = begin_save() or (0, None, False)
            try:
                result = save(*arguments, **named)
            except BaseException:
                end_save(begun, is_saved=False)
                raise
            end_save(begun, is_saved=True)
            return result

        return saving

    for name in ("save", "save_state_dict"):
        if hasattr(module, name):
            setattr(module, name, watched(getattr(module, name)))


def watch_batches(module):
    """Take each batch of a loader as a sign of life."""
    take = module._BaseDataLoaderIter.__next__

    def taking(self):
        wait()
        data = take(self)
        batch()
        return data

    module._BaseDataLoaderIter.__next__ = taking


def watch_joining(module):
    """Watch the process from where it joins others."""
    import functools

    join_all = module.init_process_group

    @functools.wraps(join_all)
    def joining(*arguments, **named):
        join()
        return join_all(*arguments, **named)

    module.init_process_group = joining


def begin(calls, stacks):
    """Add to what is called with modules once they are loaded, by their names."""
    global stacks_later  # noqa: PLW0603 -- as above
    stacks_later = stacks
    for name, call in (
        ("torch.optim.optimizer", watch_steps),
        ("torch.serialization", watch_saves),
        ("torch.distributed.checkpoint.state_dict_saver", watch_saves),
        ("torch.utils.data.dataloader", watch_batches),
        ("torch.distributed.distributed_c10d", watch_joining),
    ):
        calls.setdefault(name, []).append(quiet(call))


STACK_SEC = stack_sec()
EVERY_SEC = min(1.0, STACK_SEC / 4)
is_prepared, stacks_later = False, None
progress = Progress()
stepped, join, wait, batch = map(quiet, (progress.stepped, progress.join, progress.wait, progress.batch))
count, begin_save, end_save = quiet(lambda: progress.step), quiet(progress.begin_save), quiet(progress.end_save)
end = quiet(progress.end)
