"""What is done for one gang of another controller: its size is asked for, and its roster made, kept and taken away.

The engine calls `decide` whenever the Pods or the ConfigMap may have changed, performs what that returns, and hands
each outcome to `apply_outcome`. The ConfigMap is there while the gang has Pods. Nothing is known of a gang that the
API server does not show again, so that any controller can go on at any time.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import Final

import msgspec

from frameworkcontroller.api import foreign, names
from frameworkcontroller.api.meta import Meta, Partial
from frameworkcontroller.api.spec import MAX_ROLES, MAX_TASKS
from frameworkcontroller.core import effects, events
from frameworkcontroller.core.clock import EARLIEST
from frameworkcontroller.core.effects import Done, Effect, Failed, Found, Outcome, Owner, Readiness, Refused, Subject
from frameworkcontroller.core.events import KubeEvent
from frameworkcontroller.core.foreign.members import Members
from frameworkcontroller.core.foreign.owners import Size, size_of
from frameworkcontroller.core.foreign.pods import Claim
from frameworkcontroller.core.gang.publisher import GangStatus, Phase, Publisher
from frameworkcontroller.core.gang.roster import AttemptName, document
from frameworkcontroller.core.policies.shares import Pace, new_retries
from frameworkcontroller.core.reconcile.decision import Decision
from frameworkcontroller.core.reconcile.in_flight import Tries
from frameworkcontroller.core.reconcile.outcomes import Denials, failure_of
from frameworkcontroller.core.status.reports import Milestone, Report

# Between two looks at the size while Pods and size disagree: longer each time that it is the same.
LOOK_FIRST: Final = timedelta(seconds=5)
LOOK_MAX: Final = timedelta(seconds=60)
LOOKS_A_SECOND: Final = 5
LOOKS_AT_ONCE: Final = 100
"""Second and later looks of all gangs of a namespace, as one Job can be the owner that thousands of them name."""
NEW_A_SECOND: Final = 10
NEW_AT_ONCE: Final = 100
"""Gangs of a namespace that begin: each costs four requests, and a Pod can name another one twenty times a second."""
AGAIN_A_SECOND: Final = 0.1
AGAIN_AT_ONCE: Final = 3
"""ConfigMaps of one gang that others delete: another one, with 10,000 Pods as its owners, is two MiB."""
JUDGED_A_SECOND: Final = 1
JUDGED_AT_ONCE: Final = 10
"""All Pods of one gang by a new rule, or a new size that Pods say, which one of them can bring each time that it is
edited: 10,000 are 9 ms."""
MOST_ACCOUNTS: Final = 100
"""Service accounts of a gang that may read its roster: the first that its Pods have."""


@dataclass(frozen=True)
class Paces:
    """What all gangs of a namespace share."""

    begins: Pace = field(default_factory=partial(Pace, NEW_A_SECOND, NEW_AT_ONCE))
    looks: Pace = field(default_factory=partial(Pace, LOOKS_A_SECOND, LOOKS_AT_ONCE))
    retries: Pace = field(default_factory=new_retries)


class ForeignGang:
    """One attempt of a gang, by its namespace and name."""

    def __init__(self, namespace: str, name: str, draw: Callable[[], float], paces: Paces, *, grants: bool) -> None:
        self._namespace, self._name, self._paces, self._grants = namespace, name, paces, grants
        self.members = Members()
        self._in_flight = Tries(draw, paces.retries)
        self._denials = Denials(self._in_flight)
        self._begins: datetime | None = None
        """When it may, where there was no ConfigMap, or others have taken that away or replaced it."""
        self._again, self._judged = Pace(AGAIN_A_SECOND, AGAIN_AT_ONCE), Pace(JUDGED_A_SECOND, JUDGED_AT_ONCE)
        self._size: Size | None = None
        self._knows_owner = False
        """Whether the owner was asked for since a ConfigMap was last gone: another one may have its name by then."""
        self._look_at, self._pause = EARLIEST, LOOK_FIRST
        self._publisher: Publisher[Readiness] | None = None
        self._granted: effects.GrantRosterAccess | None = None
        self._told = ""
        """Why it can never be complete, as barriers were told."""
        self._config_map_uid = ""
        self._reports: list[Report] = []

    @property
    def subject(self) -> Subject:
        """The gang as requests name it."""
        claim, size = next(iter(self.members.claims), None), self._size
        if claim is None or size is None:
            return Subject(self._namespace, self._name, "")
        row = foreign.KINDS[claim.kind]
        objects = [(claim.owner, size.uid)]
        if row is foreign.PODS:
            # With more it can never be complete.
            members = islice(self.members.all(), MAX_TASKS)
            objects = [(pod.metadata.name, pod.metadata.uid) for pod in members]
        gang = tuple(Owner(row.api_version, row.kind, name, uid) for name, uid in objects)
        return Subject(self._namespace, self._name, gang[0].uid, gang)

    @property
    def status(self) -> GangStatus | None:
        """How far the gang is, None if there is no roster yet, or no Pod that may still run."""
        found = self._publisher
        if found is None or not self.members.may_run:
            return None
        was_complete = found.phase is not Phase.COMPLETE and not found.is_gathering(None)
        return GangStatus(
            Phase.DEGRADED if was_complete else found.phase,
            # One that can never be complete waits for nothing.
            None if self._told else found.since,
            self.members.not_created,
            self.members.not_ready,
        )

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to do for it, as long as no ConfigMap of its name is seen."""
        return not self.members and not self._in_flight.any_of("configmap", "roster", "access", "owner")

    def apply_outcome(self, effect: Effect, outcome: Outcome, now: datetime) -> None:
        """Take in what became of an effect."""
        key = effect.key
        self._in_flight.finish(key)
        failure = failure_of(effect, outcome)
        self._reports += filter(None, [self._denials.news(effect, failure)])
        match effect, outcome:
            case _ if failure is not None:
                self._in_flight.back_off(key, failure, now)
                if isinstance(outcome, Refused):
                    what = f"ConfigMap {names.config_map_name(self._name)}"
                    self._reports.append(events.of_failure(what, failure.message))
            case effects.FindOwner(), _:
                self._knows_owner = True
                self._learn(self._size_by(outcome.document) if isinstance(outcome, Found) else None)
                self._look_at = now + max(self._pause, _turn(self._paces.looks, now))
            case effects.FindConfigMap(), Found(metadata):
                # Somebody else's, or that of an earlier controller, which the cache does not show yet.
                if metadata.labels.gang is None:
                    text = f"ConfigMap {metadata.name} is somebody else's: the gang waits until it is deleted"
                    self._reports.append(KubeEvent("RosterNameTaken", text, warning=True))
                self._in_flight.back_off(key, Failed("its name is in use", refused=True), now)
            case effects.GrantRosterAccess(), _:
                self._granted = effect if isinstance(outcome, Done) else None
                self._in_flight.recheck_later(key, now)
            case effects.WriteRoster(), Done():
                pass
            case effects.FindConfigMap(), _:
                # That is not why it could not be created.
                self._in_flight.go_on(key, now)
            case effects.DeleteConfigMap(), Done():
                self._in_flight.recheck_later(key, now, longer=True)
            case _:
                self._in_flight.recheck_later(key, now)
        if isinstance(effect, effects.WriteRoster):
            self._apply_written(effect, outcome, now)

    def decide(self, now: datetime, config_map: Partial | None) -> Decision:
        """Decide what to do; `config_map` is that of the gang as the cache shows it."""
        decision = Decision(reports=[*self._reports])
        self._reports.clear()
        for effect in self._wanted(now, config_map, decision):
            until = self._in_flight.delayed_until(effect.key, now)
            if until is not None:
                decision.wake(until)
            elif self._in_flight.start(effect):
                decision.effects.append(effect)
        return decision

    def _wanted(self, now: datetime, config_map: Partial | None, decision: Decision) -> Iterator[Effect]:
        meta = None if config_map is None else config_map.metadata
        self._see(meta, now)
        if meta is not None and meta.deletion_timestamp is not None:
            # What is written there would go with it, and another one follows at the pace of new gangs.
            return
        claim = next(iter(self.members.claims), None)
        if claim is None:
            if meta is not None:
                yield effects.DeleteConfigMap(meta.uid)
            return
        if meta is None:
            self._begins = self._begins or now + _turn(self._paces.begins, now)
        if self._begins is not None and now < self._begins:
            decision.wake(self._begins)
            return
        yield from self._look(claim, now, decision)
        if self._size is None:
            return
        if meta is None:
            failures = self._in_flight.failures(effects.CONFIG_MAP)
            roster = document(self._attempt(claim, self._size), 0, 0, self._size.total)
            yield effects.FindConfigMap() if failures % 2 else effects.CreateConfigMap(claim.attempt, roster)
        else:
            yield from self._tell(claim, self._size, meta, now, decision)

    def _see(self, config_map: Meta | None, now: datetime) -> None:
        """Take in that the ConfigMap is gone, or another one."""
        before, self._config_map_uid = self._config_map_uid, "" if config_map is None else config_map.uid
        if not before or before == self._config_map_uid:
            return
        self._publisher, self._granted, self._told = None, None, ""
        self._knows_owner = False
        # The next one need not wait for that, but where others have done it, for its turn: all is written again.
        self._in_flight.reset_delay(effects.CONFIG_MAP)
        if self.members and (self._begins is None or self._begins <= now):
            self._begins = now + max(_turn(self._paces.begins, now), _turn(self._again, now))

    def _look(self, claim: Claim, now: datetime, decision: Decision) -> Iterator[Effect]:
        """Ask for the size where it is not known, or where it is not what the Pods show."""
        if claim.kind == foreign.PODS.kind:
            size = self._size_by(b"")
            if size == self._size or self._size is None or self._may_judge(now, decision):
                self._learn(size)
            return
        if self.members.fits and self._knows_owner:
            self._pause = LOOK_FIRST
        elif now < self._look_at:
            decision.wake(self._look_at)
        else:
            yield effects.FindOwner(claim.kind, claim.owner, claim.uid)

    def _may_judge(self, now: datetime, decision: Decision) -> bool:
        """Take a turn to judge all Pods again; without one, the gang is decided on when there is one."""
        if self._judged.take(now.timestamp()):
            return True
        decision.wake(now + timedelta(seconds=1 / JUDGED_A_SECOND))
        return False

    def _size_by(self, document: bytes) -> Size | None:
        """Return the size by what the owner says, None if that is no owner of these Pods."""
        claim, size = next(iter(self.members.claims), None), None
        if claim is not None:
            with suppress(msgspec.DecodeError):
                # Two sizes disagree already, and with so many roles it can never be complete.
                roles, sizes = islice(self.members.roles, MAX_ROLES + 1), islice(self.members.sizes, 2)
                size = size_of(claim.kind, document, sorted(roles), sizes)
            if size is not None and claim.uid not in {"", size.uid}:
                size = None  # another one of that name
        return size

    def _learn(self, size: Size | None) -> None:
        """Take in the size, None if nobody says it."""
        self._pause = LOOK_FIRST if size != self._size else min(2 * self._pause, LOOK_MAX)
        if size != self._size:
            self._size = size
            self.members.resize(size)

    def _attempt(self, claim: Claim, size: Size, config_map_uid: str = "") -> AttemptName:
        instance = names.attempt_instance_uid(claim.attempt, config_map_uid) if config_map_uid else None
        return AttemptName(self._namespace, claim.owner, size.uid, claim.attempt, instance)

    def _tell(self, claim: Claim, size: Size, config_map: Meta, now: datetime, decision: Decision) -> Iterator[Effect]:
        accounts = sorted(islice(self.members.accounts, MOST_ACCOUNTS))
        access = effects.GrantRosterAccess(tuple(accounts), config_map.uid)
        if self._grants and access != self._granted:
            yield access
        # What is decided counts as written, so it is decided only when it can be.
        if (until := self._in_flight.delayed_until(effects.WriteRoster.key, now)) is not None:
            decision.wake(until)
            return
        if self._in_flight.is_busy(effects.WriteRoster.key):
            return
        if self.members.has_new_rule and not self._may_judge(now, decision):
            return
        never = size.never
        publisher = self._publisher
        if publisher is None:
            # All that is told is what Pods say, and each of their changes is decided on: gangs that wait cost nothing.
            name = self._attempt(claim, size, config_map.uid)
            publisher = Publisher(config_map, name, self.members.rows, looks_again=False)
            self._publisher = publisher
            if never:  # which is told at once
                publisher.forget()
        publisher.more = {"never": never} if never else {"first": size.first} if size.first else {}
        why = ((f"{claim.kind} {claim.owner}", never),)
        missing = (lambda: why) if never else self.members.missing
        found = publisher.decide(self.members.summary(), missing, now, config_map.resource_version)
        decision.wake(found.wake_at)
        if found.event is not None:
            decision.reports.append(found.event)
        if found.write is not None:
            if never and never != self._told:
                text = f"The gang can never be complete: {never}"
                decision.reports.append(KubeEvent("GangImpossible", text, warning=True))
            self._told = never
            yield found.write

    def _apply_written(self, effect: effects.WriteRoster, outcome: Outcome, now: datetime) -> None:
        publisher = self._publisher
        if publisher is None or publisher.config_map_uid != effect.config_map_uid:
            return
        was_open = publisher.opened
        event = publisher.apply_outcome(effect, outcome.resource_version if isinstance(outcome, Done) else None)
        if event is not None:
            self._reports.append(event)
        if publisher.opened and not was_open:
            self._reports.append(Milestone("open", publisher.age(now).total_seconds()))


def _turn(pace: Pace, now: datetime) -> timedelta:
    return timedelta(seconds=pace.reserve(now.timestamp()))
