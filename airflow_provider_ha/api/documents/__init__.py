"""JSON documents: one form per concept, shared by the command, the operators and their triggers.

A view is made from a snapshot by a pure function: nothing here reads, writes or asks for the time.
"""
