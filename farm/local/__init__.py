"""The embedded farm: PostgreSQL, Valkey, the API, a worker and the reconciler on this machine, as one."""

from farm.local.farm import LocalFarm
from farm.local.home import FarmState

__all__ = ["FarmState", "LocalFarm"]
