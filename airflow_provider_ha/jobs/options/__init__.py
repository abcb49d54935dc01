"""Options of a job, and the Spark conf that follows from them."""
