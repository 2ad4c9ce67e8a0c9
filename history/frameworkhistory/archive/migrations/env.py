"""What Alembic runs the versions in: the transaction of `Database.open`."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
