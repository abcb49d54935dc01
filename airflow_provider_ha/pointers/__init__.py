"""Small records in ZooKeeper that refer to something large in storage, and the safe order of their changes."""
