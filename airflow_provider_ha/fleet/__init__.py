"""Many jobs together: the leader of a cluster, its decisions, and the overview."""
