"""What the package shows: one JSON form per concept, for the command, the operators and their triggers alike.

A view is made from a snapshot by a pure function: nothing here reads, writes or asks for the time.
"""
