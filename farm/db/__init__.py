"""SQLAlchemy tables, engine and migrations of the farm's PostgreSQL, which is the truth about every job.

`farm.db.tables` has every table, `farm.db.engine` the engine, the session factory and `transact`, `farm.db.migrate`
brings a database to the newest schema.
"""
