"""`python -m frameworkbarrier`: wait for the gang, write the files, exit with the code that the controller reads."""

# Only what an interpreter has loaded anyway: as PID 1 a signal without a handler is ignored, so `Termination` is first.
import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from frameworkbarrier.files.output import OutputDirectory
    from frameworkbarrier.gate.gate import Gatekeeper
    from frameworkbarrier.gate.wait import SourceReader
    from frameworkbarrier.health.child import Watcher
    from frameworkbarrier.log import Log
    from frameworkbarrier.settings import Settings

TERMINATED = 143


class Termination:
    """Handles SIGTERM and SIGINT: writes the last line itself and ends the process at once.

    It raises nothing: an exception is lost wherever Python drops them, in a callback of a weakref or in a destructor.

    Attributes:
        describe: what the program is doing, to continue `ended by SIGTERM`.
        report: takes the last line.
    """

    def __init__(self) -> None:
        self.describe: Callable[[], str] = lambda: ""
        self.report: Callable[[str], object] = lambda last: os.write(2, f"{last}\n".encode())

    def __call__(self, number: int, _frame: FrameType | None) -> NoReturn:
        """Handle a signal."""
        self.ignore()
        try:
            self.report(f"ended by {signal.Signals(number).name}{self.describe()} (exit code {TERMINATED})")
        finally:
            os._exit(TERMINATED)

    def handle(self) -> None:
        """Handle the signals from now on."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self)

    def ignore(self) -> None:
        """Ignore the signals from now on: the last line is decided, and no other one may follow it."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)


def main(argv: Sequence[str] | None = None, environ: Mapping[str, str] | None = None) -> int:
    """Run the barrier; returns the exit code of the contract. SIGTERM ends the process with 143.

    Source: docs/reference/barrier.md, section 5.
    """
    termination = Termination()
    termination.handle()
    environ = os.environ if environ is None else environ

    from frameworkbarrier import settings as settings_module
    from frameworkbarrier.log import Log, leave_message

    log = Log(as_json=environ.get("FB_LOG_FORMAT", "").strip() == "json")
    termination_log = environ.get("FB_TERMINATION_LOG", "") or settings_module.DEFAULT_TERMINATION_LOG

    def report(last: str) -> None:
        leave_message(termination_log, last)
        log.info(last)

    termination.report = report
    try:
        settings = settings_module.parse(environ, sys.argv[1:] if argv is None else argv)
        log, termination_log = Log(as_json=settings.log_format == "json"), settings.termination_log
        last, code = run(settings, environ, log, termination), 0
        termination.ignore()
    except Exception as fault:  # noqa: BLE001 -- the last line must be written, whatever happened
        termination.ignore()
        last, code = _last_words(fault)
        log.error(last)
    leave_message(termination_log, last)
    return code


def _last_words(fault: Exception) -> tuple[str, int]:
    """Return the last line of a barrier that fails, and its exit code."""
    from frameworkbarrier.errors import BarrierError, HungError

    if isinstance(fault, HungError):
        return str(fault), fault.exit_code
    if isinstance(fault, BarrierError):
        return f"{fault} (exit code {fault.exit_code})", fault.exit_code
    if isinstance(fault, ModuleNotFoundError):
        text = f"the package {fault.name} is missing: pip install 'frameworkcontroller[barrier]'"
    else:
        import traceback

        traceback.print_exception(fault)
        text = f"the barrier failed: {type(fault).__name__}: {fault}"
    return f"{text} (exit code 1)", 1


def run(settings: "Settings", environ: Mapping[str, str], log: "Log", termination: Termination) -> str:
    """Wait and write; a sidecar then follows the gang. Returns the last line.

    Raises:
        BarrierError: one of the subclasses, by meaning, each with its exit code.
    """
    # Modules that are imported are not garbage; looking for some takes a tenth of the start.
    gc.disable()
    from frameworkbarrier.files.output import OutputDirectory
    from frameworkbarrier.gate.wait import Progress, SourceReader, wait

    progress = Progress(log, time.monotonic)
    termination.describe = progress.describe_with_time
    with OutputDirectory(settings.output_dir) as folder:
        # The network comes last: a failure of the settings or of the folder needs none.
        from frameworkbarrier.files import container, render
        from frameworkbarrier.files.writer import Writer
        from frameworkbarrier.gate.gate import Gatekeeper
        from frameworkbarrier.source import access, choose
        from frameworkbarrier.source.api import Api

        # Who finds this file finds all files; one of an earlier run would open a startup probe too early.
        folder.remove(render.GENERATION)
        gatekeeper = Gatekeeper(settings.own_task)
        if settings.restart:
            from frameworkbarrier.files.restart_notes import Notes
            from frameworkbarrier.gate import epoch

            notes = Notes(folder)
            gatekeeper = epoch.InEpochs(settings.own_task, notes.count_start(), log)
        reader = SourceReader()
        watcher = _beside_application(gatekeeper, settings, folder, reader, log)
        signal.set_wakeup_fd(reader.wakeup_fd, warn_on_full_buffer=False)
        api = Api(access.find(settings.apiserver, settings.kubeconfig, settings.token_dir, environ))
        reader.start(choose.observe(settings, api))
        _unpack_code(settings, log)
        this_container = container.read(settings.template_dir)

        def prepare() -> None:
            render.warm_up(settings, this_container)
            gc.freeze()
            gc.enable()

        released = wait(reader, gatekeeper, settings.timeout_sec, progress, while_waiting=prepare)
        termination.describe = lambda: " while the files were written"
        if settings.restart and released.task:
            notes.keep_start(released.task.starts)
        writer = Writer(folder, settings, this_container, lambda: choose.read_framework(settings, api, log), log)
        count = writer.write(released)
        if settings.mode == "sidecar":
            folder.let_go()
        gang = released.gang
        last = (
            f"open after {progress.waited():.1f} s: {gang.total}/{gang.total} Tasks of {settings.gang_name} "
            f"are ready, generation {gang.generation}{f', epoch {gang.epoch}' if settings.restart else ''}; "
            f"wrote {count} files to {settings.output_dir}"
        )
        log.info(last)
        if settings.mode == "sidecar":
            from frameworkbarrier.gate import sidecar

            gc.enable()
            termination.describe = lambda: ""
            if watcher:
                watcher.start(gang)
            if settings.restart:
                epoch.follow(reader, gatekeeper, gang, writer.write, log, notes.announce, settings.restart_grace_sec)
            sidecar.follow(reader, gatekeeper, gang, writer.write, log)
    return last


def _beside_application(
    gatekeeper: "Gatekeeper", settings: "Settings", folder: "OutputDirectory", reader: "SourceReader", log: "Log"
) -> "Watcher | None":
    """Hold the application back, and listen to it if it ends together with its peers or says how far it is.

    Returns who is to start watching once the gate is open. The gatekeeper tells of the gang what that needs.
    """
    if settings.mode == "sidecar":
        folder.hold()
    if settings.exit:
        from frameworkbarrier.files.exits import Exits

        exits = Exits(folder, settings.exit_timeout_sec, log)
        exits.listen()
        gatekeeper.listeners.append(exits.hear)
    if not settings.progress:
        return None
    from frameworkbarrier.health import pod
    from frameworkbarrier.health.child import Watcher

    pod.prepare(settings.progress_dir, anew=bool(settings.restart))
    watcher = Watcher(settings, log, reader.end)
    gatekeeper.listeners.append(watcher.hear)
    return watcher


def _unpack_code(settings: "Settings", log: "Log") -> None:
    """Put the code where the application runs, while the first answer is on its way; raises as `code.unpack`."""
    if settings.code_archive:
        from frameworkbarrier.files import code

        count = code.unpack(settings.code_archive, settings.code_dir)
        log.info(f"wrote {count} files of code to {settings.code_dir}")


def program() -> NoReturn:
    """Run as the whole process, and end it without the interpreter's clean-up: files are closed, lines are written.

    The clean-up would take 5 ms (25 without a `gc.freeze`) for which the application waits.
    """
    os._exit(main())


if __name__ == "__main__":
    program()
