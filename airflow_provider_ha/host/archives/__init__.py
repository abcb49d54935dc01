"""Class archives (AppCDS): Spark's classes, loaded and verified once per host and not in each start of a driver."""
