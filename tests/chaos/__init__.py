"""Fault injection: real processes, a real database, broker and store, faults at named points, and what must hold after.

Nothing of it is in the farm itself: `instrument` wraps the worker's own classes inside the processes that
`services.chaos_services` starts in place of the plain ones. Run it with `make chaos`.
"""
