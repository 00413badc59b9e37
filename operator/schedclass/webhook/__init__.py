"""The webhook role: admission reviews answered from memory."""
