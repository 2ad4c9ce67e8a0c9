"""The versions of the tables: Alembic brings a database to the newest."""
