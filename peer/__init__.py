"""The cloud service: the link server and the public corpus."""
