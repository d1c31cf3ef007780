"""The table of operators: what each one of Caffe2 becomes."""

import collections.abc

import numpy as np

from naiad.backends.caffe2.arguments import Call
from naiad.backends.caffe2.graph import Value
from naiad.backends.caffe2.operators import (
    detection,
    elementwise,
    fills,
    normalising,
    products,
    reducing,
    resampling,
    shaping,
    windows,
)

Operator = collections.abc.Callable[[Call], list[Value]]
"""Translates an operator: adds nodes to its graph and gives the values of its outputs, or of the first few: those that nothing but training reads are left out.

Raises:
    UnsupportedError: the operator has an argument or a shape that is not in the table.
"""

_WINDOWS: dict[str, Operator] = {
    **dict.fromkeys(("Conv", "Conv1D", "Conv2D", "Conv3D"), windows.convolution),
    "ConvTranspose": windows.transposed_convolution,
    **dict.fromkeys(("MaxPool", "MaxPool1D", "MaxPool2D", "MaxPool3D"), windows.max_pool),
    **dict.fromkeys(
        ("AveragePool", "AveragePool1D", "AveragePool2D", "AveragePool3D"), windows.average_pool
    ),
}

_ELEMENTWISE: dict[str, Operator] = {
    **{
        name: elementwise.plain(name)
        for name in (
            "Abs", "Acos", "Asin", "Atan", "Ceil", "Cos", "Cosh", "Exp", "Floor", "Log", "Not", "Relu", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign",
            "Sqrt", "Tan", "Tanh", "Reciprocal",
        )
    },
    "Negative": elementwise.plain("Neg"),
    "LeakyRelu": elementwise.with_floats("LeakyRelu", alpha=0.01),
    "Elu": elementwise.with_floats("Elu", alpha=1.0),
    "HardSigmoid": elementwise.with_floats("HardSigmoid", alpha=0.2, beta=0.5),
    "ThresholdedRelu": elementwise.with_floats("ThresholdedRelu", alpha=1.0),
    "Selu": elementwise.selu,
    "PRelu": elementwise.parametric_relu,
    "Clip": elementwise.clip,
    "Sqr": elementwise.square,
    "Cube": elementwise.cube,
    "Rsqrt": elementwise.inverse_root,
    "Swish": elementwise.swish,
    "Scale": elementwise.scale,
    "Pow": elementwise.power,
    **{name: elementwise.binary(name) for name in ("Add", "Sub", "Mul", "Div", "And", "Or", "Xor")},
    "LT": elementwise.binary("Less", compares=True),
    "LE": elementwise.binary("LessOrEqual", compares=True),
    "GT": elementwise.binary("Greater", compares=True),
    "GE": elementwise.binary("GreaterOrEqual", compares=True),
    "EQ": elementwise.binary("Equal", compares=True),
    "NE": elementwise.binary("Equal", compares=True, negated=True),
    **{name: elementwise.several(name) for name in ("Sum", "Max", "Min", "Mean")},
    "WeightedSum": elementwise.weighted_sum,
}  # fmt: skip

_NORMALISING: dict[str, Operator] = {
    "SpatialBN": normalising.batch_norm,
    "InstanceNorm": normalising.instance_norm,
    "GroupNorm": normalising.group_norm,
    "LayerNorm": normalising.layer_norm,
    "LRN": normalising.local_response_norm,
    "AffineChannel": normalising.affine_channel,
    "Normalize": normalising.unit_norm,
    "Dropout": normalising.dropout,
}

_PRODUCTS: dict[str, Operator] = {
    "FC": products.fully_connected,
    "FCTransposed": products.fully_connected_transposed,
    "MatMul": products.matrix_product,
    "BatchMatMul": products.batch_product,
    "Gather": products.gather(0),
    "BatchGather": products.gather(1),
    "TopK": products.top_k,
}

_REDUCING: dict[str, Operator] = {
    **{
        name: reducing.reduce(name)
        for name in ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2")
    },
    **{
        f"Reduce{'Front' if front else 'Back'}{kind}": reducing.reduce_side(
            f"Reduce{kind}", front=front
        )
        for front in (False, True)
        for kind in ("Mean", "Sum", "Max")
    },
    "SumElements": reducing.sum_elements,
    "ArgMax": reducing.position("ArgMax"),
    "ArgMin": reducing.position("ArgMin"),
    "Softmax": reducing.softmax,
}

_SHAPING: dict[str, Operator] = {
    **dict.fromkeys(
        ("Copy", "StopGradient", "Alias", "EnsureCPUOutput", "EnsureDense", "CopyFromCPUInput", "CopyCPUToGPU", "CopyGPUToCPU", "CopyOnDeviceLike"),
        shaping.nothing,
    ),
    "Reshape": shaping.reshape,
    "ResizeLike": shaping.like_another,
    "Flatten": shaping.flatten,
    "FlattenToVec": shaping.flatten_to_vector,
    "ExpandDims": shaping.expand,
    "Squeeze": shaping.squeeze,
    "Transpose": shaping.transpose,
    "NCHW2NHWC": shaping.reorder(last=True),
    "NHWC2NCHW": shaping.reorder(last=False),
    "Concat": shaping.concat,
    "DepthConcat": shaping.concat,
    "Split": shaping.split,
    "DepthSplit": shaping.split,
    "Slice": shaping.cut,
    "Shape": shaping.shape,
    "Cast": shaping.cast,
    "Tile": shaping.tile,
    "ResizeNearest": resampling.nearest,
    "UpsampleBilinear": resampling.bilinear,
    "PadImage": resampling.pad,
    "ChannelShuffle": resampling.channel_shuffle,
}  # fmt: skip

_DETECTION: dict[str, Operator] = {
    "RoIAlign": detection.roi_align,
    "BBoxTransform": detection.box_transform,
    "BoxWithNMSLimit": detection.limited_boxes,
}

_FILLS: dict[str, Operator] = {
    "GivenTensorFill": fills.given(np.float32),
    "GivenTensorDoubleFill": fills.given(np.float64),
    "GivenTensorIntFill": fills.given(np.int32),
    "GivenTensorInt16Fill": fills.given(np.int16),
    "GivenTensorInt64Fill": fills.given(np.int64),
    "GivenTensorBoolFill": fills.given(np.bool_),
    "GivenTensorByteStringToUInt8Fill": fills.given_bytes,
    "ConstantFill": fills.constant,
    **dict.fromkeys(
        ("XavierFill", "MSRAFill", "UniformFill", "UniformIntFill", "UniqueUniformFill", "GaussianFill"),
        fills.random,
    ),
}  # fmt: skip

OPERATORS: collections.abc.Mapping[str, Operator] = {
    **_WINDOWS,
    **_ELEMENTWISE,
    **_NORMALISING,
    **_PRODUCTS,
    **_REDUCING,
    **_SHAPING,
    **_DETECTION,
    **_FILLS,
}
"""By the operator's type."""
