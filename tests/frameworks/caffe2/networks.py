"""Classic networks in two forms: a torch module with random weights, and the pair of nets that computes the same."""

import pathlib
from typing import Any

import numpy as np
import torch
from torch import nn

from tests.support.netdef import Op, write


class NetWriter:
    """Writes the operators of a net, one after the other, with the weights of torch's modules."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.blobs: dict[str, Any] = {}

    def add(self, kind: str, inputs: list[str], output: str, *more: str, **arguments: Any) -> str:
        """An operator; gives its first output."""
        self.ops.append((kind, inputs, [output, *more], arguments))
        return output

    def weights(self, name: str, *tensors: torch.Tensor | None) -> list[str]:
        """Weights, named after what they belong to."""
        names: list[str] = []
        for index, tensor in enumerate(tensors):
            if tensor is not None:
                names.append(f"{name}_w{index}")
                self.blobs[names[-1]] = tensor.detach().numpy()
        return names

    def conv(self, name: str, x: str, module: nn.Conv2d, *, relu: bool = True) -> str:
        """A convolution, and Relu in place."""
        weights = self.weights(name, module.weight, module.bias)
        arguments = {
            "kernel": module.kernel_size[0],
            "stride": module.stride[0],
            "pad": int(module.padding[0]),
        }
        y = self.add("Conv", [x, *weights], name, **arguments, group=module.groups, order="NCHW")
        return self.add("Relu", [y], y) if relu else y

    def norm(self, x: str, module: nn.BatchNorm2d, *, relu: bool = True) -> str:
        """SpatialBN in place, and Relu in place."""
        weights = self.weights(
            f"{x}_bn", module.weight, module.bias, module.running_mean, module.running_var
        )
        self.add("SpatialBN", [x, *weights], x, is_test=1, epsilon=module.eps)
        return self.add("Relu", [x], x) if relu else x

    def linear(self, name: str, x: str, module: nn.Linear) -> str:
        """FC."""
        return self.add("FC", [x, *self.weights(name, module.weight, module.bias)], name)

    def write(self, folder: pathlib.Path) -> None:
        """The pair of nets, with a placeholder for the input as exporters write it."""
        placeholder: Op = ("ConstantFill", (), ("data",), {"shape": [1]})
        write(folder, self.ops, ["data"], ["prob"], self.blobs, init=[placeholder])


def randomised(module: nn.Module) -> Any:
    """A module for inference whose statistics and weights differ from the defaults."""
    generator = torch.Generator().manual_seed(1)
    for each in module.modules():
        if isinstance(each, nn.BatchNorm2d):
            for tensor, low in (
                (each.running_mean, -0.5),
                (each.running_var, 0.5),
                (each.weight, 0.5),
                (each.bias, -0.5),
            ):
                assert tensor is not None
                tensor.data.uniform_(low, low + 1, generator=generator)
    return module.eval()


class Fire(nn.Module):
    """A module of SqueezeNet."""

    def __init__(self, inputs: int, squeeze: int, expand: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeeze, 1)
        self.one = nn.Conv2d(squeeze, expand, 1)
        self.three = nn.Conv2d(squeeze, expand, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.squeeze(x).relu()
        return torch.cat([self.one(x).relu(), self.three(x).relu()], 1)


class SqueezeNet(nn.Module):
    """SqueezeNet 1.1 with pooling as Caffe's, 1000 classes."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 64, 3, 2)
        sizes = [
            (64, 16, 64),
            (128, 16, 64),
            (128, 32, 128),
            (256, 32, 128),
            (256, 48, 192),
            (384, 48, 192),
            (384, 64, 256),
            (512, 64, 256),
        ]
        self.fires = nn.ModuleList(Fire(*each) for each in sizes)
        self.last = nn.Conv2d(512, 1000, 1)
        self.pool = nn.MaxPool2d(3, 2, ceil_mode=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(self.first(x).relu())
        for index, fire in enumerate(self.fires):
            x = fire(x)
            if index in (1, 3):
                x = self.pool(x)
        return self.last(x).relu().mean((2, 3), keepdim=True).softmax(1)

    def net(self) -> NetWriter:
        """The same as a pair of nets."""
        net = NetWriter()
        x = net.conv("conv1", "data", self.first)
        x = net.add("MaxPool", [x], "pool1", kernel=3, stride=2, legacy_pad=3)
        for index, fire in enumerate(self.fires):
            name = f"fire{index + 2}"
            small = net.conv(f"{name}/squeeze", x, fire.squeeze)
            parts = [
                net.conv(f"{name}/one", small, fire.one),
                net.conv(f"{name}/three", small, fire.three),
            ]
            x = net.add("Concat", parts, f"{name}/concat", f"_{name}/dims", order="NCHW")
            if index in (1, 3):
                x = net.add("MaxPool", [x], f"{name}/pool", kernel=3, stride=2, legacy_pad=3)
        net.add("Dropout", [x], x, "mask", is_test=1, ratio=0.5)
        x = net.conv("conv10", x, self.last)
        x = net.add("AveragePool", [x], "pool10", kernel=0, global_pooling=1, legacy_pad=3)
        net.add("Softmax", [x], "prob")
        return net


class AlexNet(nn.Module):
    """AlexNet with its groups, LRN and fully connected layers, the latter with 256 in place of 4096."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            (
                nn.Conv2d(3, 96, 11, 4),
                nn.Conv2d(96, 256, 5, padding=2, groups=2),
                nn.Conv2d(256, 384, 3, padding=1),
                nn.Conv2d(384, 384, 3, padding=1, groups=2),
                nn.Conv2d(384, 256, 3, padding=1, groups=2),
            )
        )
        self.dense = nn.ModuleList(
            (nn.Linear(9216, 256), nn.Linear(256, 256), nn.Linear(256, 1000))
        )
        self.norm = nn.LocalResponseNorm(5, 1e-4, 0.75, 1.0)
        self.pool = nn.MaxPool2d(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for index, conv in enumerate(self.convs):
            x = conv(x).relu()
            if index < 2:
                x = self.norm(x)
            if index in (0, 1, 4):
                x = self.pool(x)
        x = self.dense[0](x.flatten(1)).relu()
        return self.dense[2](self.dense[1](x).relu()).softmax(1)

    def net(self) -> NetWriter:
        """The same as a pair of nets."""
        net, x = NetWriter(), "data"
        for index, conv in enumerate(self.convs):
            x = net.conv(f"conv{index}", x, conv)
            if index < 2:
                x = net.add(
                    "LRN",
                    [x],
                    f"norm{index}",
                    f"scale{index}",
                    size=5,
                    alpha=1e-4,
                    beta=0.75,
                    bias=1.0,
                )
            if index in (0, 1, 4):
                x = net.add("MaxPool", [x], f"pool{index}", kernel=3, stride=2)
        for index, linear in enumerate(self.dense):
            x = net.linear(f"fc{index}", x, linear)
            if index < 2:
                net.add("Relu", [x], x)
                net.add("Dropout", [x], x, f"mask{index}", is_test=1, ratio=0.5)
        net.add("Softmax", [x], "prob")
        return net


class Residual(nn.Module):
    """A block of ResNet, with a bottleneck."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.a, self.na = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.b, self.nb = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.c, self.nc = nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
        self.side, self.ns = (
            nn.Conv2d(inputs, outputs, 1, stride, bias=False),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.na(self.a(x)).relu()
        y = self.nb(self.b(y)).relu()
        return (self.nc(self.c(y)) + self.ns(self.side(x))).relu()


class ResNet(nn.Module):
    """A short ResNet."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        self.blocks = nn.ModuleList(
            (Residual(64, 16, 1), Residual(64, 32, 2), Residual(128, 32, 2))
        )
        self.last = nn.Linear(128, 1000)
        self.pool = nn.MaxPool2d(3, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(self.norm(self.first(x)).relu())
        for block in self.blocks:
            x = block(x)
        return self.last(x.mean((2, 3))).softmax(1)

    def net(self) -> NetWriter:
        """The same as a pair of nets."""
        net = NetWriter()
        x = net.norm(net.conv("conv1", "data", self.first, relu=False), self.norm)
        x = net.add("MaxPool", [x], "pool1", kernel=3, stride=2, pad=1)
        for index, block in enumerate(self.blocks):
            y = net.norm(net.conv(f"r{index}a", x, block.a, relu=False), block.na)
            y = net.norm(net.conv(f"r{index}b", y, block.b, relu=False), block.nb)
            y = net.norm(net.conv(f"r{index}c", y, block.c, relu=False), block.nc, relu=False)
            side = net.norm(net.conv(f"r{index}s", x, block.side, relu=False), block.ns, relu=False)
            net.add("Sum", [y, side], y)
            x = net.add("Relu", [y], y)
        x = net.add("AveragePool", [x], "final", kernel=14, stride=1, global_pooling=0)
        net.add("Softmax", [net.linear("pred", x, self.last)], "prob")
        return net


def images(rows: int, size: int) -> np.ndarray[Any, Any]:
    """Images around 0, [rows, 3, size, size]."""
    return np.random.default_rng(7).normal(size=(rows, 3, size, size)).astype(np.float32)
