"""Stored checkpoints and savepoints: pointers in ZooKeeper, payloads, retention rules, and removal."""
