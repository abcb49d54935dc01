"""Stop, cancel, fail and inspect jobs; dispose of savepoints; follow the logs of drivers."""
