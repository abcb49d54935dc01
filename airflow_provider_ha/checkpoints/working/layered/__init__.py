"""Working directories on storage without links and renames: names of a base, a slot in the old log."""
