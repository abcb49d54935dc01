"""The leader of a cluster: which jobs need attention, and what each of them needs."""
