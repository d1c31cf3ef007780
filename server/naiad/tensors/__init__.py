"""Where tensors lie, and how they go to other libraries and come from them: for the server and for worker processes alike."""
