"""The numbers of changes, and how far the API server has them.

Every change of a Framework's status gets the next number, its revision. A write of the status carries all revisions up
to one, so one number says what is persisted. Whoever waits until something is, asks by its mark.
"""

from enum import Enum, auto


class Mark(Enum):
    """What has changed, where somebody asks when it did."""

    FRAMEWORK = auto()
    """The Framework's own part of the status."""
    ATTEMPT = auto()
    """All that Pods depend on, as their owner is; that the first of them runs is not."""
    MEMBERS = auto()
    """What the Tasks of a gang must know of each other."""


class Revisions:
    """The revisions of one Framework: of the last change (`now`), and the newest that the API server has."""

    def __init__(self) -> None:
        self.now = self.persisted = 0
        self._marks = dict.fromkeys(Mark, 0)

    def change(self, *marks: Mark) -> int:
        """Return the revision of a change, of these kinds if it has any."""
        self.now += 1
        self._marks.update(dict.fromkeys(marks, self.now))
        return self.now

    def of(self, mark: Mark) -> int:
        """Return the revision of the last change of this kind."""
        return self._marks[mark]

    def is_persisted(self, mark: Mark) -> bool:
        """Report whether the API server has the last change of this kind."""
        return self._marks[mark] <= self.persisted

    @property
    def all_persisted(self) -> bool:
        """Whether the API server has every change."""
        return self.now == self.persisted
