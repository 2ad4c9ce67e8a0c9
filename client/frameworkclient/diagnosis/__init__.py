"""Why a Framework does not run, and what to do: the facts of status, Pods, Events and barriers in plain words.

Pure. `cli.commands.why` gathers the `evidence`; `framework` looks at the whole, `tasks` at each Task and its Pod,
`queue` at one that Kueue queues. `health` says the same of the installation, `kueue` of Kueue beside it.
"""
