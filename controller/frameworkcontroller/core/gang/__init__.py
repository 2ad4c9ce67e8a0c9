"""The gang of a Framework attempt: its roster, when the roster is written, and who else has changed it."""
