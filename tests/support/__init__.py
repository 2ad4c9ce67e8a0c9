"""What several test suites share: waiting, a player of the kubelet's part, clusters per session."""

from support.waiting import eventually, eventually_async

__all__ = ["eventually", "eventually_async"]
