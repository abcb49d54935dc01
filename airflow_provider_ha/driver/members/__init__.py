"""Members of a job: the leadership of this driver, its records of the run, and remains of earlier drivers."""
