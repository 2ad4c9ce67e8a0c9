"""The errors that the injector raises on purpose, by meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from frameworkinjector.review.reasons import Verdict


class InjectorError(Exception):
    """The base of every error that this program raises on purpose."""


class RefusalError(InjectorError):
    """The Pod cannot be injected; the verdict's sentence tells the user why, and `where` the template, if it is one."""

    def __init__(self, verdict: Verdict, where: str = "") -> None:
        super().__init__(verdict.sentence)
        self.verdict = verdict
        self.where = where


class CertificateError(InjectorError):
    """A certificate, a key or an object that holds them cannot be used; the message names it and says why."""


class SelfCallError(InjectorError):
    """The call of a replica to itself failed; the message says why, as a clause."""
