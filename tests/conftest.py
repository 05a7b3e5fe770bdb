"""Fixtures for every tier."""

pytest_plugins = ["tests.postgres"]
