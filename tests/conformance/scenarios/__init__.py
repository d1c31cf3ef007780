"""What is sent to both servers."""
