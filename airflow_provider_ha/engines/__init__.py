"""What runs drivers: one module per engine, and the protocol that all of them keep."""
