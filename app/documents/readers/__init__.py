"""Readers: from the bytes of a file to the text of its pages.

They run in the process of `parse_worker` and import nothing of the service but each other.
"""
