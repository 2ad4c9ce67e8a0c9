"""The command line, `frameworkctl` or `kubectl framework`, on top of the library.

`app` has all commands: `make` (`run`, `submit`), `look` and `change` declare them with their flags, and a command
imports what it needs from `commands` when it runs, so that `--help` starts quickly. `run` turns errors into one line
and an exit code. `tables`, `describe`, `changes` and `picture` draw, and do nothing else; `terminal` has colours and
width.
"""
