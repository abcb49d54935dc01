"""Removal: retention of runs, deletion of jobs, checkpoints and savepoints."""
