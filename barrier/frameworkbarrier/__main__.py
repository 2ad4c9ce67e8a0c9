"""`python -m frameworkbarrier`: wait for the gang, write the files, exit with the code that the controller reads."""

import gc
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import NoReturn

from . import settings as settings_module
from .errors import BarrierError, TerminatedError
from .log import Log, leave_message
from .output import OutputDirectory
from .settings import Settings


def main(argv: Sequence[str] | None = None, environ: Mapping[str, str] | None = None) -> int:
    """Run the barrier; returns the exit code of the contract: 0, 1, 143, 201 or 210."""
    environ = os.environ if environ is None else environ
    # As PID 1 a signal without a handler is ignored, so these are set before anything else can take time.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _terminate)
    as_json = environ.get("FB_LOG_FORMAT", "").strip() == "json"
    log, termination_log = Log(as_json=as_json), settings_module.DEFAULT_TERMINATION_LOG
    try:
        termination_log = environ.get("FB_TERMINATION_LOG", "") or termination_log
        settings = settings_module.parse(environ, sys.argv[1:] if argv is None else argv)
        log, termination_log = Log(as_json=settings.log_format == "json"), settings.termination_log
        last, code = run(settings, environ, log), 0
    except BarrierError as end:
        last, code = f"{end} (exit code {end.exit_code})", end.exit_code
        log.fail(last)
    except TerminatedError as end:
        last, code = f"{end} (exit code {end.exit_code})", end.exit_code
        log.note(last)
    except Exception as fault:  # noqa: BLE001  # the last line must be written, whatever happened
        import traceback

        traceback.print_exc()
        last, code = f"the barrier failed: {type(fault).__name__}: {fault} (exit code 1)", 1
        log.fail(last)
    leave_message(termination_log, last)
    return code


def run(settings: Settings, environ: Mapping[str, str], log: Log) -> str:
    """Wait and write, as a sidecar follow too; returns the last line.

    Raises:
        BarrierError: by meaning, each with its exit code.
        TerminatedError: SIGTERM arrived.
    """
    started = time.monotonic()
    # What is imported is no garbage; to look for some takes a tenth of the start.
    gc.disable()
    with OutputDirectory(settings.output_dir) as folder:
        # From here on the network: what is imported above is what every failure of the settings costs.
        from . import access, render, surroundings
        from .kube import Api
        from .sources import observe
        from .wait import Inbox, wait
        from .writer import Writer

        inbox = Inbox()
        api = Api(access.find(settings.apiserver, settings.kubeconfig, settings.token_dir, environ))
        inbox.start(observe(settings, api))
        around = surroundings.look(settings.template_dir)

        def prepare() -> None:
            render.warm_up(settings, around)
            gc.freeze()
            gc.enable()

        opened = wait(inbox, settings.me, settings.timeout_sec, log, while_waiting=prepare)
        writer = Writer(folder, settings, around, api, log)
        count = writer.write(opened.open, opened.look)
        gang = opened.open.gang
        last = (
            f"open after {time.monotonic() - started:.1f} s: {gang.total}/{gang.total} Tasks of {settings.gang_name} "
            f"are ready, generation {gang.generation}; wrote {count} files to {settings.output_dir}"
        )
        log.note(last)
        if settings.mode == "sidecar":
            from . import sidecar

            gc.enable()
            sidecar.follow(inbox, settings.me, opened, writer, log)
    return last


def _terminate(number: int, _frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)
    raise TerminatedError(f"ended by {signal.Signals(number).name}")


def program() -> NoReturn:
    """Be the whole process, and end it without Python's tidying up: files are closed and lines are flushed by now.

    That would take 5 ms (25 without a `gc.freeze`) for which the application waits.
    """
    os._exit(main())


if __name__ == "__main__":
    program()
