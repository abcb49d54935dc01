"""The files of an application: which they are, in storage, and on the host that unpacks them."""
