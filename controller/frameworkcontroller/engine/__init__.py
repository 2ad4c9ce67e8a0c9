"""The only place that acts: observe, decide, write the status, act, look again."""
