"""The engine that the device and the cloud peer share."""
