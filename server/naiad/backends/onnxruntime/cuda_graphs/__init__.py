"""CUDA graphs of ONNX models: planned from the config alone, captured by onnxruntime at the load, run by IO binding."""
