"""The barrier: its start, and the release of a gang of 1,000."""
