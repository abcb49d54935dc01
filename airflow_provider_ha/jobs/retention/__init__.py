"""Runs that are long over: which ones are removed, how, and what stays of them."""
