"""`python -m frameworkbarrier`: wait for the gang, write the files, exit with the code that the controller reads."""

# Only what an interpreter has anyway: as PID 1 a signal without a handler is ignored, so `Ending` comes first.
import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from .log import Log
    from .settings import Settings

TERMINATED = 143


class Ending:
    """Handles SIGTERM and SIGINT: says the last words itself and ends the process where it stands.

    It raises nothing: an exception is lost wherever Python drops them, in a callback of a weakref or in a destructor.

    Attributes:
        describe: what it is doing, to go on after `ended by SIGTERM`.
        tell: takes the last line.
    """

    def __init__(self) -> None:
        self.describe: Callable[[], str] = lambda: ""
        self.tell: Callable[[str], object] = lambda last: os.write(2, f"{last}\n".encode())

    def __call__(self, number: int, _frame: FrameType | None) -> NoReturn:
        """Be the handler of a signal."""
        self.ignore()
        try:
            self.tell(f"ended by {signal.Signals(number).name}{self.describe()} (exit code {TERMINATED})")
        finally:
            os._exit(TERMINATED)

    def handle(self) -> None:
        """From here on."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self)

    def ignore(self) -> None:
        """The last line is decided, and is not to be followed by another one."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)


def main(argv: Sequence[str] | None = None, environ: Mapping[str, str] | None = None) -> int:
    """Run the barrier; returns the exit code of the contract: 0, 1, 201 or 210. SIGTERM ends the process with 143."""
    ending = Ending()
    ending.handle()
    environ = os.environ if environ is None else environ

    from . import settings as settings_module
    from .errors import BarrierError
    from .log import Log, leave_message

    log = Log(as_json=environ.get("FB_LOG_FORMAT", "").strip() == "json")
    termination_log = environ.get("FB_TERMINATION_LOG", "") or settings_module.DEFAULT_TERMINATION_LOG

    def tell(last: str) -> None:
        leave_message(termination_log, last)
        log.note(last)

    ending.tell = tell
    try:
        settings = settings_module.parse(environ, sys.argv[1:] if argv is None else argv)
        log, termination_log = Log(as_json=settings.log_format == "json"), settings.termination_log
        last, code = run(settings, environ, log, ending), 0
        ending.ignore()
    except BarrierError as end:
        ending.ignore()
        last, code = f"{end} (exit code {end.exit_code})", end.exit_code
        log.fail(last)
    except Exception as fault:  # noqa: BLE001  # the last line must be written, whatever happened
        ending.ignore()
        import traceback

        traceback.print_exc()
        last, code = f"the barrier failed: {type(fault).__name__}: {fault} (exit code 1)", 1
        log.fail(last)
    leave_message(termination_log, last)
    return code


def run(settings: "Settings", environ: Mapping[str, str], log: "Log", ending: Ending) -> str:
    """Wait and write, as a sidecar follow too; returns the last line.

    Raises:
        BarrierError: by meaning, each with its exit code.
    """
    # What is imported is no garbage; to look for some takes a tenth of the start.
    gc.disable()
    from .output import OutputDirectory
    from .wait import Inbox, Progress, wait

    progress = Progress(log, time.monotonic)
    ending.describe = progress.describe_with_time
    with OutputDirectory(settings.output_dir) as folder:
        # From here on the network: what is imported above is what every failure of the settings costs.
        from . import access, render, surroundings
        from .kube import Api
        from .sources import observe
        from .writer import Writer

        # Whoever sees it sees all files: one of an earlier run in this folder would open a startup probe too early.
        folder.remove(render.GENERATION)
        inbox = Inbox()
        api = Api(access.find(settings.apiserver, settings.kubeconfig, settings.token_dir, environ))
        inbox.start(observe(settings, api))
        around = surroundings.look(settings.template_dir)

        def prepare() -> None:
            render.warm_up(settings, around)
            gc.freeze()
            gc.enable()

        opened = wait(inbox, settings.me, settings.timeout_sec, progress, while_waiting=prepare)
        ending.describe = lambda: " while the files were written"
        writer = Writer(folder, settings, around, api, log)
        count = writer.write(opened.open, opened.look)
        gang = opened.open.gang
        last = (
            f"open after {progress.waited():.1f} s: {gang.total}/{gang.total} Tasks of {settings.gang_name} "
            f"are ready, generation {gang.generation}; wrote {count} files to {settings.output_dir}"
        )
        log.note(last)
        if settings.mode == "sidecar":
            from . import sidecar

            gc.enable()
            ending.describe = lambda: ""
            sidecar.follow(inbox, settings.me, opened, writer, log)
    return last


def program() -> NoReturn:
    """Be the whole process, and end it without Python's tidying up: files are closed and lines are flushed by now.

    That would take 5 ms (25 without a `gc.freeze`) for which the application waits.
    """
    os._exit(main())


if __name__ == "__main__":
    program()
