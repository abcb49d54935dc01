"""ZooKeeper: session, election, fencing, pointers, counters and znode paths."""
