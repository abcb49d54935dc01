"""What is done with checkpoint directories: fork, fence, pin, record, drain. Nothing is ever edited in place."""
