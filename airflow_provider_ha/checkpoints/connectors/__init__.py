"""What sinks have and sources still offer: file sink logs, Delta, Kafka, input files."""
