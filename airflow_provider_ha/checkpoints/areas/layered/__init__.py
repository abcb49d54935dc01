"""Working directories on storage without links and renames: the names in a base, a slot in the old log."""
