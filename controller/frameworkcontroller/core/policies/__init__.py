"""Rules of a Framework, and its roles, which they ask: when to retry, what an exit means, who waits, and how long."""
