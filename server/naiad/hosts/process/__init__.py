"""Worker processes as the server sees them: their life, their messages, what they print."""
