"""ZooKeeper: session, election, fencing, reader leases, counters and znode paths."""
