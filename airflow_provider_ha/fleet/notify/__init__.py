"""Events about the jobs of a cluster: leadership, health, and the notices for people."""
