"""Rules of a Framework, and its roles, which they ask.

When to retry, by code, type and count (`retry`), which code a failed Pod has (`classification`), when an attempt is
over (`completion`), who waits (`dependencies`), who is ready (`readiness`), how long what failed waits (`crash_loop`,
`backoff`, which knows no code of HTTP: `engine.requests` does), how often something may happen (`pace`), and what the
Frameworks of a namespace share (`shares`).
"""
