"""The gang of a Framework attempt: which Tasks are missing from it, its roster, and when the roster is written."""
