"""The device service: HTTP and WebSocket surface, documents, link to the peer."""
