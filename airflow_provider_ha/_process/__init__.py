"""Processes of this host: find Java, bind a child to its parent, kill a tree to its last member."""
