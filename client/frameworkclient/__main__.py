"""`frameworkctl`, and `kubectl framework` as a plugin of kubectl."""


def main() -> None:
    """Run the command line and exit with its code."""
    import signal
    import sys

    from frameworkclient.cli.app import app
    from frameworkclient.cli.terminal import program

    # As an exception they let what was written of the kubeconfig, keys included, be removed. nohup ignores SIGHUP.
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has one of them
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, lambda received, _: sys.exit(128 + received))
    app(prog_name=program())


def complete() -> None:
    """Print what may follow the arguments, as kubectl asks its plugin: choices and `:4`, or `:0` for names of files.

    Source: kubectl, "Extend kubectl with plugins", `kubectl_complete-framework`.
    """
    import contextlib
    import io
    import os
    import shlex
    import sys

    from frameworkclient.cli.app import app

    words = ["frameworkctl", *sys.argv[1:]]
    os.environ |= {"COMP_WORDS": shlex.join(words), "COMP_CWORD": str(len(words) - 1)}
    os.environ["_FRAMEWORKCTL_COMPLETE"] = "complete_bash"
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()) as printed:
        app(prog_name="frameworkctl")
    choices = [line for line in printed.getvalue().splitlines() if line]
    sys.stdout.write("".join(f"{choice}\n" for choice in [*choices, ":4" if choices else ":0"]))


if __name__ == "__main__":
    main()
