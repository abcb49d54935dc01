"""Which checkpoint is restored, what that would do, and how it is prepared and started."""
