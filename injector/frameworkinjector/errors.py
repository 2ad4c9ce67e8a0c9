"""What can go wrong, by meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from frameworkinjector.reasons import Verdict


class InjectorError(Exception):
    """Base of every error that this program raises on purpose."""


class RefusalError(InjectorError):
    """The Pod cannot be injected; the verdict says why, in the words that the user will read."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.sentence)
        self.verdict = verdict


class CertificateError(InjectorError):
    """A certificate, key or Secret that cannot be used; the message names which and why."""
