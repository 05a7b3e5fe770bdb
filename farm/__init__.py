"""facefarm: a render farm that replaces faces in long videos.

Arrows between rooms run downwards only: `api`, `worker`, `triggers` and `cli` use everything; `chunker`, `merger` and
`faces` use `media`, `inference` and `store`; `jobs` uses `db`; `media`, `inference`, `store`, `db`, `settings` and
`errors` use nothing of ours but `errors`.
"""

__version__ = "0.1.0"
