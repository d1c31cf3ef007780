"""A module of torch with weights: it doubles its input of two columns."""

import torch


class Twice(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor = torch.nn.Parameter(torch.full((2,), 2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


class Odd(torch.nn.Module):
    """It misbehaves as the largest value of its input says: see `odd_models`."""

    def __init__(self, edge: int) -> None:
        super().__init__()
        self.edge = edge

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        most = int(x.max().item())
        if most == 1:
            return x + torch.zeros([self.edge, self.edge, self.edge]).sum()
        if most == 2:
            return torch.cat([x, x])
        if most == 3:
            return torch.cat([x, x], 1)
        if most == 4:
            raise ValueError("four is too much")
        if most == 5:
            return x.to(torch.int64)
        return x.sum() if most == 6 else x


class Grows(torch.nn.Module):
    """It allocates the 16th power of its rows."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        edge = x.shape[0] ** 4
        return x + torch.zeros(edge, edge, edge, edge).sum()
