"""Why the barrier ends without opening: one exception per meaning, each with the exit code of the contract.

The controller reads these codes from the failed container (201 and 210 are predefined there), so they are API.
Source: docs/reference/barrier.md, section 5.
"""


class BarrierError(Exception):
    """Base of everything that the barrier raises on purpose; its text is one sentence for a person."""

    exit_code = 1


class SettingsError(BarrierError):
    """An environment variable, flag, preset or template cannot work: no retry will help."""

    exit_code = 210


class GoneError(BarrierError):
    """The Framework attempt or the own Task does not exist any more: the gate can never open for this Pod."""

    exit_code = 210


class StillForbiddenError(BarrierError):
    """The Pod's service account may still not read the object that shows the gang, 30 s after the start."""

    exit_code = 210


class WaitTimeoutError(BarrierError):
    """Not open within the timeout: a transient conflict, so the Framework backs off, retries and undoes deadlocks."""

    exit_code = 201


class EpochEndedError(BarrierError):
    """The epoch of this Pod has ended: all its containers are to start again, with those of its peers."""

    exit_code = 88


class HungError(EpochEndedError):
    """The gang makes no progress, and is to start again; its text is the verdict, for the controller."""

    exit_code = 89


class OutputError(BarrierError):
    """A file could not be written."""
