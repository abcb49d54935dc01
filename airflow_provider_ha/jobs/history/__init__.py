"""What is kept of a job for people: batches over days, verifications and drills."""
