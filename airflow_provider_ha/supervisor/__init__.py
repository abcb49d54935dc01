"""The process that starts a driver, kills what is left of it, and proves its death. No PySpark."""
