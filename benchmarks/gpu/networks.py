"""The networks of the GPU measures, with weights from a seed; run as a program it makes one and runs the bare loops over it that a server is compared with.

    python -m benchmarks.gpu.networks NET FOLDER

It writes FOLDER/model.pt, then reads lines `KIND ROWS COUNT` (a kind is `script` or `graph`) and answers each with the median ms of a run.
"""

import collections.abc
import pathlib
import sys
from typing import Any

import torch
from torch import nn

from benchmarks.gpu.bare import answer

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SIZES = (1, 32)


class Bottleneck(nn.Module):
    """A block of a ResNet-50."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width * 4, 1, bias=False), nn.BatchNorm2d(width * 4),
        )  # fmt: skip
        same = stride == 1 and before == width * 4
        self.way = (
            nn.Identity() if same else nn.Sequential(nn.Conv2d(before, width * 4, 1, stride, bias=False), nn.BatchNorm2d(width * 4))
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """See the class."""
        return torch.relu(self.body(x) + self.way(x))


class Scaled(nn.Module):
    """Bytes of an image as numbers."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """See the class."""
        return x.float() / 255 - 0.5


def resnet() -> nn.Module:
    """A network with the layers of ResNet-50, on images of 224 x 224."""
    layers: list[nn.Module] = [
        Scaled(), nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
    ]  # fmt: skip
    before = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for number in range(count):
            layers.append(Bottleneck(before, width, stride if number == 0 else 1))
            before = width * 4
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 1000))


class Layer(nn.Module):
    """A layer of an encoder."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """See the class."""
        rows, tokens, width = x.shape[0], x.shape[1], x.shape[2]
        parts = self.qkv(self.first(x)).view(rows, tokens, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        seen = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(seen.transpose(1, 2).reshape(rows, tokens, width))
        return x + self.down(nn.functional.gelu(self.up(self.second(x))))


class Encoder(nn.Module):
    """An encoder of the size of BERT base: 128 tokens in, 8 numbers out."""

    def __init__(self, layers: int = 12, width: int = 768) -> None:
        super().__init__()
        self.embed = nn.Embedding(30522, width)
        self.layers = nn.Sequential(*(Layer(width, width // 64) for _ in range(layers)))
        self.head = nn.Linear(width, 8)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """See the class."""
        return self.head(self.layers(self.embed(ids)).mean(1)).float()


def encoder() -> nn.Module:
    """Half precision on a GPU."""
    return Encoder().half() if DEVICE == "cuda" else Encoder(2, 128)


NETS: dict[str, collections.abc.Callable[[], nn.Module]] = {"resnet": resnet, "encoder": encoder}


def example(net: str, rows: int) -> torch.Tensor:
    """Input of a network, on the host."""
    generator = torch.Generator().manual_seed(rows)
    if net == "resnet":
        return torch.randint(0, 256, (rows, 3, 224, 224), generator=generator, dtype=torch.uint8)
    return torch.randint(0, 30522, (rows, 128), generator=generator)


Loop = collections.abc.Callable[[], Any]


def script_loop(net: Any, x: torch.Tensor) -> Loop:
    """From the host's memory to it, as a program without a server would: pinned memory, one stream."""
    if DEVICE == "cpu":
        return lambda: net(x)
    stream, pinned = torch.cuda.Stream(), x.pin_memory()

    def run() -> torch.Tensor:
        with torch.inference_mode(), torch.cuda.stream(stream):
            return net(pinned.to(DEVICE, non_blocking=True)).cpu()

    return run


def graph_loop(net: Any, x: torch.Tensor) -> Loop:
    """The same in a CUDA graph."""
    stream, pinned, inside = torch.cuda.Stream(), x.pin_memory(), x.to(DEVICE)
    with torch.inference_mode(), torch.cuda.stream(stream):
        for _ in range(3):
            net(inside)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.inference_mode(), torch.cuda.graph(graph, stream=stream):
        outside = net(inside)

    def run() -> torch.Tensor:
        with torch.inference_mode(), torch.cuda.stream(stream):
            inside.copy_(pinned, non_blocking=True)
            graph.replay()
            return outside.cpu()

    return run


def main(name: str, folder: pathlib.Path) -> None:
    """Make the file, say so, and answer lines."""
    torch.manual_seed(7)
    net = NETS[name]().eval()
    torch.jit.script(net).save(str(folder / "model.pt"))
    net = torch.jit.load(str(folder / "model.pt"), map_location=DEVICE).eval()

    def make(kind: str, rows: int) -> Loop:
        loop = (graph_loop if kind == "graph" else script_loop)(net, example(name, rows))
        for _ in range(10):
            loop()
        return loop

    answer(make)


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]))
