"""Retained checkpoints: payloads, pointers, retention rules, and removal."""
