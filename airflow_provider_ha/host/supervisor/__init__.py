"""Process that starts a driver, kills its remaining processes, and proves their death. No PySpark."""
