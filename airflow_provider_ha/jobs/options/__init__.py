"""What a user chooses for a job, and the Spark conf that follows from it."""
