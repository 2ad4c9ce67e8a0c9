"""Rules of a Framework as functions of values: when to retry, what an exit means, who waits for whom, how long."""
