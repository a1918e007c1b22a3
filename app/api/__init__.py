"""HTTP routes and the browser WebSocket."""
