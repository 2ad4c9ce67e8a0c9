"""Follows Frameworks, their rosters and Events by the API, and makes rows of what it sees."""
