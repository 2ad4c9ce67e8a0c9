"""The gang of one Framework attempt: who is missing and why, when to publish the roster, and what people are told."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from frameworkcontroller.api.states import State

from . import announce, task
from .ledger import is_ready
from .roster import Absentee, Identity, RosterKeeper

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from frameworkcontroller.api.types import FrameworkSpec, Meta

    from .book import Book
    from .decision import View
    from .effects import Shown, WriteRoster
    from .outbox import Outbox

# Whoever is missing for longer than this is worth an Event.
PATIENCE: Final = timedelta(seconds=30)
TOLD: Final = 3


@dataclass(frozen=True)
class Milestone:
    """A gang's start has come so far, ``seconds`` after its ConfigMap was created."""

    phase: str
    seconds: float


class Gang:
    """What the peers of one ConfigMap may know.

    Args:
        config_map: the attempt's, as first seen.
        identity: of the attempt.
    """

    def __init__(self, config_map: Meta, identity: Identity) -> None:
        self.config_map_uid = config_map.uid
        self._identity = identity
        self._since = config_map.creation_timestamp
        self._keeper = RosterKeeper(config_map)
        self._told_absent = False
        self._told_ready = self._open = self._keeper.was_complete
        self._reached = {"created", "addressed", "open"} if self._open else set[str]()

    def settle(self, effect: WriteRoster, *, done: bool) -> None:
        """Whether a roster was written; if not, what the ConfigMap says is not known any more."""
        if not done:
            self._keeper.forget()
        elif effect.complete:
            self._open = True

    def milestones(self, book: Book, spec: FrameworkSpec, now: datetime) -> Iterator[Milestone]:
        """What the gang has come to since the last call; nothing if it had come there before this controller did."""
        created = sum(ledger.counts.created for ledger in book.roles.values())
        ready, total = book.readiness(spec)
        for phase, reached in (("created", created >= total), ("addressed", ready == total), ("open", self._open)):
            if reached and total and phase not in self._reached:
                self._reached.add(phase)
                if self._since is not None:
                    yield Milestone(phase, (now - self._since).total_seconds())

    def decide(
        self, book: Book, outbox: Outbox, view: View, shown: Shown, now: datetime
    ) -> tuple[WriteRoster | None, datetime | None]:
        """The roster to write now, or when to ask again; what is worth telling goes into the book."""
        effect, wake_at = self._keeper.decide(
            self._identity, self.config_map_uid, shown, absentees(book, outbox, view), now
        )
        waited = now - (self._since or now)
        if shown.complete and not self._told_ready:
            self._told_ready = True
            book.announce(announce.of_gang(shown.total, waited.total_seconds()))
        elif not shown.complete and not self._told_absent and not self._told_ready and shown.total:
            if waited < PATIENCE:
                at = now - waited + PATIENCE
                wake_at = at if wake_at is None else min(wake_at, at)
            else:
                self._told_absent = True
                named = [entry for entry, _ in zip(absentees(book, outbox, view), range(TOLD), strict=False)]
                book.announce(announce.of_absentees(shown.ready, shown.total, named, waited.total_seconds()))
        return effect, wake_at


def identity_of(book: Book, namespace: str, name: str, uid: str) -> Identity:
    """The current attempt, as the roster names it."""
    attempt = book.known.attempt_status
    return Identity(namespace, name, uid, attempt.id, attempt.instance_uid)


def is_open(book: Book) -> bool:
    """Whether there is a gang to speak of: an attempt that is neither about to begin nor about to end."""
    return book.known.state in {State.PREPARING, State.RUNNING}


def absentees(book: Book, outbox: Outbox, view: View) -> Iterator[Absentee]:
    """The Tasks that are not ready, each with the best reason known."""
    for name, ledger in book.roles.items():
        if ledger.counts.ready == ledger.counts.active:
            continue
        for current in ledger.active():
            if not is_ready(current):
                trouble = outbox.trouble(("pod", name, current.index))
                pod = view.pod(current.attempt_status.pod_name)
                yield Absentee(f"{name}-{current.index}", trouble or task.why_not_ready(current, pod))
