# SPDX-License-Identifier: Apache-2.0
"""The detection network: fully convolutional, anchor-free, one answer a cell of 8 x 8 px."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

STRIDE = 8
PRIOR = -3.5
"""Logit of an untrained cell: nearly all of them are empty."""


def _conv(inputs: int, outputs: int, stride: int = 1, kernel: int = 3) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)
    )


class _Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(_conv(channels, channels), _conv(channels, channels))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


class Network(nn.Module):
    """Input N x 3 x 240 x 320, RGB from 0 to 1. Gives logits N x labels x 30 x 40 and the distances N x 4 x 30 x 40 in px
    from a cell's middle to left, top, right and bottom."""

    def __init__(self, labels: int) -> None:
        super().__init__()
        self.fine = nn.Sequential(_conv(3, 16, 2), _conv(16, 24, 2), _conv(24, 24), _conv(24, 48, 2), _Residual(48))
        self.middle = nn.Sequential(_conv(48, 64, 2), _Residual(64))
        self.coarse = nn.Sequential(_conv(64, 80, 2), _Residual(80))
        self.down_coarse, self.down_middle = _conv(80, 64, kernel=1), _conv(64, 48, kernel=1)
        self.head = nn.Sequential(_conv(48, 56), _conv(56, 56))
        self.heat, self.sides = nn.Conv2d(56, labels, 1), nn.Conv2d(56, 4, 1)
        nn.init.constant_(self.heat.bias, PRIOR)
        nn.init.constant_(self.sides.bias, 1.0)
        nn.init.normal_(self.sides.weight, std=0.01)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        return self.answers(self.features(images))

    def features(self, images: Tensor) -> Tensor:
        """Apply all layers but the last."""
        fine = self.fine((images - 0.5) * 4.0)
        middle = self.middle(fine)
        middle = middle + _grown(self.down_coarse(self.coarse(middle)), middle)
        return self.head(fine + _grown(self.down_middle(middle), fine))

    def answers(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Apply the last layer."""
        return self.heat(features), STRIDE * torch.exp(self.sides(features).clamp(-4.0, 4.5))


def _grown(x: Tensor, like: Tensor) -> Tensor:
    return functional.interpolate(x, scale_factor=2.0, mode="nearest")[..., : like.shape[2], : like.shape[3]]


class Answers(nn.Module):
    """The network with its answers as boxes: 1 x (4 + labels) x cells, centre, width, height in px and a score a label."""

    def __init__(self, network: Network, height: int, width: int) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("middles", middles(height // STRIDE, width // STRIDE))

    def forward(self, images: Tensor) -> Tensor:
        heat, sides = self.network(images)
        sides = sides.flatten(2)
        low, high = self.middles - sides[:, :2], self.middles + sides[:, 2:]
        return torch.cat([(low + high) / 2, high - low, heat.sigmoid().flatten(2)], dim=1)


def middles(rows: int, columns: int) -> Tensor:
    """Middles of the cells in px, 2 (x, y) x cells, row by row."""
    ys, xs = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    return (torch.stack([xs, ys]).flatten(1).float() + 0.5) * STRIDE
