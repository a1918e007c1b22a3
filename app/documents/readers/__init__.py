"""Readers of the files that are taken: from bytes to the text of pages.

They run in the process of `parse_worker` and import nothing of the service but each other.
"""
