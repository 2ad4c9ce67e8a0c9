"""A Framework as the API server has it: its parts are decoded when they are first asked for."""

from functools import cached_property
from typing import Final

import msgspec
from msgspec import Raw, field

from frameworkcontroller.api import names
from frameworkcontroller.api.meta import IDENTITY_DECODER, Identity, Wire
from frameworkcontroller.api.spec import SPEC_DECODER, FrameworkSpec, bounded
from frameworkcontroller.api.status import STATUS_DECODER, FrameworkStatus
from frameworkcontroller.api.workload import QueueLabels


class Framework(Wire, frozen=True, dict=True, gc=True):
    """A Framework as the API server has it, decoded part by part when the part is first asked for.

    Raises:
        msgspec.ValidationError: by `metadata`, `spec` and `stored_status`, if that part cannot be decoded.
    """

    raw_metadata: Raw = field(name="metadata")
    raw_spec: Raw = field(name="spec")
    status: Raw = Raw()

    @cached_property
    def metadata(self) -> Identity:
        """What identifies the Framework."""
        return IDENTITY_DECODER.decode(self.raw_metadata)

    @cached_property
    def spec(self) -> FrameworkSpec:
        """What the user asks for, with its numbers within their bounds."""
        return bounded(SPEC_DECODER.decode(self.raw_spec))

    @cached_property
    def queue_labels(self) -> QueueLabels:
        """Its labels for Kueue."""
        return _LABELS.decode(self.raw_metadata).labels

    @property
    def finalizers(self) -> bytes:
        """The list of its finalizers as JSON: anybody may write a mebibyte of them, 17 MB as texts."""
        return bytes(_FINALIZERS.decode(self.raw_metadata).finalizers or b"[]")

    @cached_property
    def is_held(self) -> bool:
        """Whether it stays until the archive has its last state."""
        return _HELD in bytes(self.raw_metadata) and _HELD in self.finalizers

    @property
    def changed_finalizers(self) -> bytes:
        """The same list with the finalizer of the archive, or without it if it is there; others keep their order."""
        found = self.finalizers
        if self.is_held:
            return found.replace(b"," + _HELD, b"").replace(_HELD + b",", b"").replace(_HELD, b"")
        return found[:-1] + (b"" if found == b"[]" else b",") + _HELD + b"]"

    @property
    def size(self) -> int:
        """How many bytes it has, as JSON, about."""
        return sum(memoryview(part).nbytes for part in (self.raw_metadata, self.raw_spec, self.status))

    @property
    def has_status(self) -> bool:
        """Whether a status is stored, whatever it holds."""
        return bytes(self.status) not in {b"", b"null"}

    def stored_status(self) -> FrameworkStatus | None:
        """Decode the status; None if there is none."""
        return STATUS_DECODER.decode(self.status) if self.has_status else None


class _Labelled(Wire, frozen=True):
    labels: QueueLabels = QueueLabels()


class _Finalized(Wire, frozen=True):
    finalizers: Raw = Raw()


_LABELS: Final = msgspec.json.Decoder(_Labelled)
_FINALIZERS: Final = msgspec.json.Decoder(_Finalized)
_HELD: Final = f'"{names.HISTORY_FINALIZER}"'.encode()
"""The finalizer of the archive, as JSON: no other text has it between quotes."""
FRAMEWORK_DECODER: Final = msgspec.json.Decoder(Framework)
