"""The embedded farm: PostgreSQL, Valkey, the API, a worker and the reconciler on this machine, as one.

`from farm.local.farm import LocalFarm`. Nothing is imported here, so that the guard process stays small.
"""
