"""A made-up TensorRT: the classes and methods of the package of that name that the backend uses, for plans that `made_up_gpu.plans` writes.

`test_interface.py` holds it to the real package's signatures. An engine computes with numpy, in the made-up CUDA's streams.
"""

import enum
import json
import math
from typing import Any

import ml_dtypes
import numpy as np
from made_up_cuda import CAPABILITY, CUDA

__version__ = "11.4.0.106"

HEADER = 28


class DataType(enum.Enum):
    FLOAT, HALF, BF16, INT8, INT32, INT64, BOOL, UINT8, FP8 = range(9)


class TensorIOMode(enum.Enum):
    NONE, INPUT, OUTPUT = range(3)


class TensorFormat(enum.Enum):
    LINEAR, CHW2, HWC8, CHW4 = range(4)


class ExecutionContextAllocationStrategy(enum.Enum):
    STATIC, ON_PROFILE_CHANGE, USER_MANAGED = range(3)


class Severity(enum.Enum):
    INTERNAL_ERROR, ERROR, WARNING, INFO, VERBOSE = range(5)


_DTYPES: dict[str, Any] = {
    "FLOAT": np.float32,
    "HALF": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "INT8": np.int8,
    "INT32": np.int32,
    "INT64": np.int64,
    "BOOL": np.bool_,
    "UINT8": np.uint8,
    "FP8": np.uint8,
}


class ILogger:
    def log(self, severity: Severity, msg: str) -> None:
        raise NotImplementedError


class IOutputAllocator:
    def reallocate_output(self, tensor_name: str, memory: int, size: int, alignment: int) -> int:
        raise NotImplementedError

    def reallocate_output_async(
        self, tensor_name: str, memory: int, size: int, alignment: int, stream: int
    ) -> int:
        raise NotImplementedError

    def notify_shape(self, tensor_name: str, shape: tuple[int, ...]) -> None:
        raise NotImplementedError


def init_libnvinfer_plugins(logger: ILogger, namespace: str) -> bool:
    return True


class Runtime:
    def __init__(self, logger: ILogger) -> None:
        self._logger = logger
        self.engine_host_code_allowed = False
        self.DLA_core = -1

    @property
    def num_DLA_cores(self) -> int:
        return 0

    def deserialize_cuda_engine(self, serialized_engine: bytes) -> "ICudaEngine | None":
        built = tuple(serialized_engine[24:28])
        ours = (11, 4)
        if built[:2] != ours and not self.engine_host_code_allowed:
            self._logger.log(
                Severity.ERROR,
                "IRuntime::deserializeCudaEngine: Error Code 1: Serialization (Serialization assertion stdVersionRead == kSERIALIZATION_VERSION failed.)",
            )
            return None
        try:
            plan = json.loads(serialized_engine[HEADER:])
        except ValueError:
            self._logger.log(
                Severity.ERROR,
                "IRuntime::deserializeCudaEngine: Error Code 4: the plan ends too early",
            )
            return None
        if tuple(plan["capability"]) != CAPABILITY:
            wanted = ".".join(map(str, plan["capability"]))
            have = ".".join(map(str, CAPABILITY))
            self._logger.log(
                Severity.ERROR,
                f"IRuntime::deserializeCudaEngine: Error Code 6: API Usage Error (The engine plan file is generated on an incompatible device, expecting compute {have} got compute {wanted}, please rebuild.)",
            )
            return None
        return ICudaEngine(plan, self._logger)


class ICudaEngine:
    def __init__(self, plan: dict[str, Any], logger: ILogger) -> None:
        self._plan = plan
        self._logger = logger
        self._tensors = {each["name"]: each for each in plan["tensors"]}

    @property
    def num_io_tensors(self) -> int:
        return len(self._tensors)

    @property
    def num_optimization_profiles(self) -> int:
        return len(self._plan["profiles"])

    def get_tensor_name(self, index: int) -> str:
        return str(list(self._tensors)[index])

    def get_tensor_mode(self, name: str) -> TensorIOMode:
        return TensorIOMode.INPUT if self._tensors[name]["input"] else TensorIOMode.OUTPUT

    def get_tensor_dtype(self, name: str) -> DataType:
        return DataType[self._tensors[name]["dtype"]]

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._tensors[name]["shape"])

    def get_tensor_format(self, name: str) -> TensorFormat:
        return TensorFormat[self._tensors[name]["format"]]

    def is_shape_inference_io(self, name: str) -> bool:
        return bool(self._tensors[name]["is_shape"])

    def get_tensor_profile_shape(self, name: str, profile_index: int) -> list[tuple[int, ...]]:
        return [tuple(each) for each in self._plan["profiles"][profile_index]["shapes"][name]]

    # The package has the names of the two the wrong way round.
    def get_tensor_profile_values(self, name: int, profile_index: str) -> list[list[int]]:
        values: list[list[int]] = self._plan["profiles"][name]["values"][profile_index]
        return values

    def create_execution_context(
        self,
        strategy: ExecutionContextAllocationStrategy = ExecutionContextAllocationStrategy.STATIC,
    ) -> "IExecutionContext":
        return IExecutionContext(self)


class IExecutionContext:
    def __init__(self, engine: ICudaEngine) -> None:
        self._engine = engine
        self._profile = 0
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._addresses: dict[str, int] = {}
        self._allocators: dict[str, IOutputAllocator] = {}
        for name in self._inputs():
            shape = engine.get_tensor_shape(name)
            if -1 not in shape:
                self._shapes[name] = shape

    def set_optimization_profile_async(self, profile_index: int, stream_handle: int) -> bool:
        if not 0 <= profile_index < self._engine.num_optimization_profiles:
            return False
        self._profile = profile_index
        return True

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        engine = self._engine
        least, _, most = engine.get_tensor_profile_shape(name, self._profile)
        fits = len(shape) == len(most) and all(
            low <= size <= high for low, size, high in zip(least, shape, most, strict=True)
        )
        if not fits:
            engine._logger.log(
                Severity.ERROR,
                f"IExecutionContext::setInputShape: Error Code 3: API Usage Error (Parameter check failed: {name}: {list(shape)} is not in profile {self._profile})",
            )
            return False
        self._shapes[name] = tuple(shape)
        return True

    def set_tensor_address(self, name: str, memory: int) -> bool:
        if name not in self._engine._tensors:
            return False
        if memory % 256 and not self._engine.is_shape_inference_io(name):
            return False
        self._addresses[name] = memory
        return True

    def set_output_allocator(self, name: str, output_allocator: IOutputAllocator) -> bool:
        self._allocators[name] = output_allocator
        return True

    def infer_shapes(self) -> list[str]:
        return [
            name
            for name in self._inputs()
            if name not in self._shapes
            or (self._engine.is_shape_inference_io(name) and name not in self._addresses)
        ]

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        tensor = self._engine._tensors[name]
        if tensor["input"]:
            return self._shapes.get(name, tuple(tensor["shape"]))
        if tensor["depends"] or self.infer_shapes():
            return tuple(tensor["shape"])
        return tuple(self._output(name, self._zeros(self._shapes)).shape)

    def get_max_output_size(self, name: str) -> int:
        if self.infer_shapes():
            return -1
        most = {
            each: self._engine.get_tensor_profile_shape(each, self._profile)[2]
            for each in self._inputs()
        }
        return int(self._output(name, self._zeros(most)).nbytes)

    def execute_async_v3(self, stream_handle: int) -> bool:
        engine = self._engine
        bound = {*self._addresses, *self._allocators}
        missing = [name for name in engine._tensors if name not in bound] + self.infer_shapes()
        if missing:
            engine._logger.log(
                Severity.ERROR,
                f"IExecutionContext::enqueueV3: Error Code 3: no address for {missing}",
            )
            return False
        if self.fails():
            engine._logger.log(
                Severity.ERROR,
                "IExecutionContext::enqueueV3: Error Code 1: Cask (a made-up kernel failed)",
            )
            return False
        shapes = dict(self._shapes)
        if self._allocators:
            CUDA.synchronize(stream_handle)
            given = self._given(shapes)
            for name, allocator in self._allocators.items():
                values = self._output(name, given)
                address = allocator.reallocate_output_async(
                    name, 0, values.nbytes, 256, stream_handle
                )
                allocator.notify_shape(name, values.shape)
                CUDA.run(
                    stream_handle, lambda values=values, address=address: _write(address, values)
                )
        plain = [
            name
            for name, each in engine._tensors.items()
            if not each["input"] and name not in self._allocators
        ]
        # What a shape tensor says is read now, as TensorRT does; all other values when the stream comes to them.
        said = {
            name: self._read(name, shapes)
            for name in self._inputs()
            if engine.is_shape_inference_io(name)
        }

        def compute() -> None:
            given = {**self._given(shapes), **said}
            for name in plain:
                _write(self._addresses[name], self._output(name, given))

        CUDA.run(stream_handle, compute)
        return True

    def fails(self) -> bool:
        return bool(self._engine._plan.get("fails"))

    def _inputs(self) -> list[str]:
        return [name for name, each in self._engine._tensors.items() if each["input"]]

    def _zeros(self, shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
        given: dict[str, Any] = {}
        for name, shape in shapes.items():
            if self._engine.is_shape_inference_io(name) and name in self._addresses:
                given[name] = self._read(name, shapes)
            else:
                given[name] = np.zeros(shape, self._dtype(name))
        return given

    def _given(self, shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
        return {name: self._read(name, shapes) for name in self._inputs()}

    def _read(self, name: str, shapes: dict[str, tuple[int, ...]]) -> Any:
        dtype = np.dtype(self._dtype(name))
        size = math.prod(shapes[name]) * dtype.itemsize
        return np.frombuffer(CUDA.read(self._addresses[name], size), dtype).reshape(shapes[name])

    def _dtype(self, name: str) -> Any:
        return _DTYPES[self._engine._tensors[name]["dtype"]]

    def _output(self, name: str, given: dict[str, Any]) -> Any:
        text = self._engine._tensors[name]["value"]
        values = eval(text, {"np": np, **given})  # a test's own plan
        return np.ascontiguousarray(np.asarray(values).astype(self._dtype(name)))


def _write(address: int, values: Any) -> None:
    CUDA.write(address, values.tobytes())
