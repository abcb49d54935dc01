"""Files of an application: on the submitting host, in storage, and on the driver's host."""
