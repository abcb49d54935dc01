"""Working directories of an epoch: fork, fence, pin, record, drain. Nothing is edited in place."""
