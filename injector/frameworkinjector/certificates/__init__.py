"""The certificates of the webhook: `bundle` says when they are renewed, `issuing` makes them, `tls` serves them.

For how long they are valid, flags of `frameworkinjector` say (`__main__`). They are kept in a Secret that all replicas
share (`secret`), or read from files of an operator (`files`).
"""
