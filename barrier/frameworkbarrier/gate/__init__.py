"""Whether this Pod may go on: the gang, the gate, and how the barrier waits for it. No network and no files."""
