"""What a plan holds: read by TensorRT or from the file, held against a config, completed from."""
