"""What the server measures of itself and its machine: event loop, CPU, memory, GPUs."""
