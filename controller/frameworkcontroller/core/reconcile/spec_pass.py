"""The spec's part of a reconcile pass: which state of the Framework is seen, and what it asks for.

A state is seen once its Pod templates are read: large ones are read elsewhere (`facts`), and until then the pass goes
on with the state before. Most changes of the object are our own writes of the status, so only what differs is followed.
"""

from msgspec import Raw

from frameworkcontroller.api.framework import Framework
from frameworkcontroller.api.spec import FrameworkSpec
from frameworkcontroller.core.pods.facts import Templates
from frameworkcontroller.core.reconcile.in_flight import InFlight
from frameworkcontroller.core.status.revisions import Mark
from frameworkcontroller.core.status.state import FrameworkState
from frameworkcontroller.core.status.summary import summarize
from frameworkcontroller.core.status.writer import StatusWriter


class SpecPass:
    """What the user asks for; `seen` is the newest state that is known, with its templates."""

    def __init__(self, seen: Framework, state: FrameworkState, in_flight: InFlight, writer: StatusWriter) -> None:
        self._state, self._in_flight, self._writer = state, in_flight, writer
        self.seen, self.generation = seen, writer.generation
        self.spec: FrameworkSpec | None = None
        """Before the first state is seen, None."""
        self.templates = Templates()

    def knows_newer(self, seen: Framework) -> bool:
        """Report whether a newer state of the Framework is known, or a newer Framework of this name."""
        return seen.metadata.is_older_than(self.seen.metadata)

    def next(self, shown: Framework) -> Framework | None:
        """Return the state that is to be seen next, given what the cache shows; None if it is seen already."""
        newest = self.seen if self.knows_newer(shown) else shown
        return None if newest is self.seen and self.spec is not None else newest

    def unread(self, shown: Framework) -> dict[bytes, Raw]:
        """Return the large templates to read (`facts.read`) and learn before what the cache shows is seen."""
        following = self.next(shown)
        # Most states have the same spec, and to compare it costs a tenth of a look at each template.
        is_new = following is not None and following.spec != self.spec
        return self.templates.unread(following.spec) if following is not None and is_new else {}

    def begin(self, shown: Framework) -> FrameworkSpec | None:
        """See what the cache shows, follow the spec, and return it; None while its templates are not read."""
        following = self.next(shown)
        if following is not None and not self.unread(shown):
            self.seen = following
            self._follow(following.spec)
        return self.spec

    def _follow(self, spec: FrameworkSpec) -> None:
        """Follow the spec: of the newest object, although an earlier one may be equal, since it keeps all of it."""
        state, before = self._state, self.spec
        self.spec = spec
        is_changed = spec != before
        if is_changed:
            state.take_over(self.templates.facts(spec))
        if before is None and state.has_status:
            if state.lacks_places:
                # The roster has what the status has left out. It waits for a write that knows it from the Pods again.
                state.revisions.change(Mark.FRAMEWORK)
            else:
                self._writer.persisted_summary = summarize(state, spec)
        if self.seen.metadata.generation != self.generation:
            # It is written as observedGeneration, also if nothing else follows from it.
            self.generation = self.seen.metadata.generation
            state.revisions.change(Mark.FRAMEWORK)
        if is_changed and before is not None:
            state.dirty.touch_many(state.crash_loops.follow(before, spec))
            refusals = self._in_flight.refusals
            refusals.keep(spec.by_name.keys())
            for name in spec.by_name:
                if before.task_of(name).pod != spec.task_of(name).pod:
                    refusals.open(name, taken=False)
