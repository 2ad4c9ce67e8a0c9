"""What tests and benchmarks share and nothing else imports.

Frameworks and their controller on a local cluster, gangs whose Pods the caller plays, files out of Go modules, and
waiting until a check holds.
"""
