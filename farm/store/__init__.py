"""Objects: one Protocol (`base.Store`), a shared folder, S3, and twins for tests. `factory.open_store` picks one."""
