"""The database: its tables, their versions, and what is written, read and dropped."""
