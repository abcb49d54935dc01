"""Sources as seen by a restore: the amount that is read again, and the lost part."""
