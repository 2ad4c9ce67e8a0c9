"""What a barrier that restarts in its Pod leaves in the folder: its number of starts, and a notice to the application.

Source: docs/reference/restart.md, section 4.
"""

from frameworkbarrier.files.output import File, OutputDirectory

STARTS = "starts"
RESTARTING = "restarting"
MAX_DIGITS = 9


class Notes:
    """The two files; each that cannot be written is an `OutputError`."""

    def __init__(self, folder: OutputDirectory) -> None:
        self._folder = folder

    def count_start(self) -> int:
        """Return the number of this start, from 1, and take away the notice of the one before."""
        before = self._folder.read(STARTS, MAX_DIGITS + 1).strip()
        number = (int(before) if before.isdigit() and len(before) <= MAX_DIGITS else 0) + 1
        self.keep_start(number)
        self._folder.remove(RESTARTING)
        return number

    def keep_start(self, number: int) -> None:
        """Write the number of this start."""
        self._folder.write(File(STARTS, f"{number}\n".encode()))

    def announce(self, text: str) -> None:
        """Tell the application that the epoch ends."""
        self._folder.write(File(RESTARTING, f"{text}\n".encode()))
