"""The server of the webhook.

`run` is its process and `server` its connections, on the addresses that `--host` of `__main__` says; `log` and
`metrics` tell of it, `capabilities` asks the API server what it can do, and `self_call` calls it as the API server
would.
"""
