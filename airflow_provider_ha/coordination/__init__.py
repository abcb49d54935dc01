"""ZooKeeper: session, election, fencing, pointers, counters and the paths of every znode."""
