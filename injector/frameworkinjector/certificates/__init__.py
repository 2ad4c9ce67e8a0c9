"""The certificates of the webhook: `bundle` says when they are renewed, `issuing` makes them, `tls` serves them.

They are kept in a Secret that all replicas share (`secret`), or read from files of an operator (`files`).
"""
