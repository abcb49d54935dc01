"""Engines, which run drivers: one module per engine, and their common protocol."""
