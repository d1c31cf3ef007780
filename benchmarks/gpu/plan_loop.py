"""Builds a TensorRT plan of an ONNX file, then runs the bare loops over it: `python -m benchmarks.gpu.plan_loop ONNX PLAN`, lines as those of `networks`.

Torch has the memory and the streams; the kind `graph` runs in a CUDA graph, every other one without.
"""

import collections.abc
import pathlib
import sys
from typing import Any

import tensorrt as trt
import torch

from benchmarks.gpu.bare import answer

_SHAPE = (3, 112, 112)


def build(source: pathlib.Path, target: pathlib.Path) -> None:
    """One profile of 1 to 32 rows; TF32 where the card has it."""
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(0)
    parser = trt.OnnxParser(network, logger)
    if not parser.parse(source.read_bytes()):
        sys.exit("; ".join(str(parser.get_error(each)) for each in range(parser.num_errors)))
    config = builder.create_builder_config()
    config.builder_optimization_level = 2  # the plan matters less than the time to build it
    profile = builder.create_optimization_profile()
    profile.set_shape("x", (1, *_SHAPE), (32, *_SHAPE), (32, *_SHAPE))
    config.add_optimization_profile(profile)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        sys.exit("TensorRT did not build the plan")
    target.write_bytes(bytes(plan))


def loop(engine: Any, rows: int, *, graphed: bool) -> collections.abc.Callable[[], Any]:
    """From the host's memory to it, with pinned memory and one stream."""
    context = engine.create_execution_context()
    stream = torch.cuda.Stream()
    pinned = torch.rand(rows, *_SHAPE).pin_memory()
    inside = pinned.cuda()
    context.set_input_shape("x", tuple(inside.shape))
    outside = torch.empty(tuple(context.get_tensor_shape("y")), device="cuda")
    context.set_tensor_address("x", inside.data_ptr())
    context.set_tensor_address("y", outside.data_ptr())
    with torch.cuda.stream(stream):
        for _ in range(3):
            context.execute_async_v3(stream.cuda_stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    if graphed:
        with torch.cuda.graph(graph, stream=stream):
            context.execute_async_v3(torch.cuda.current_stream().cuda_stream)

    def run() -> torch.Tensor:
        with torch.cuda.stream(stream):
            inside.copy_(pinned, non_blocking=True)
            if graphed:
                graph.replay()
            else:
                context.execute_async_v3(stream.cuda_stream)
            return outside.cpu()

    return run


def main(source: pathlib.Path, target: pathlib.Path) -> None:
    """Build, say so, and answer lines."""
    build(source, target)
    runtime = trt.Runtime(trt.Logger(trt.Logger.ERROR))
    engine = runtime.deserialize_cuda_engine(target.read_bytes())
    answer(lambda kind, rows: loop(engine, rows, graphed=kind == "graph"))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
