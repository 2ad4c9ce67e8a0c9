"""Rules of a Framework, and its roles, which they ask.

When to retry (`retry`), what a failed Pod means (`classification`), when an attempt is over (`completion`), who waits
(`dependencies`), who is ready (`readiness`), and how long what failed waits (`backoff`, `crash_loop`).
"""
