"""The certificates of the webhook: `bundle` says when they are renewed, `issuing` makes them, `tls` serves them.

They are kept in a Secret that all replicas share (`secret`), or read from files of an operator (`files`). Flags of
`frameworkinjector` say for how long they are valid and how often the Secret is looked at (`__main__`); how often files
are, `files` says.
"""
