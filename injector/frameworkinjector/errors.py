"""The errors that the injector raises on purpose, by meaning."""


class InjectorError(Exception):
    """The base of every error that this program raises on purpose."""


class CertificateError(InjectorError):
    """A certificate, a key or an object that holds them cannot be used; the message names it and says why."""
