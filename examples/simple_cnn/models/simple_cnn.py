"""A small convolutional network for 8 × 8 images of digits."""

from __future__ import annotations

import torch
from torch import nn


class SimpleCNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.BatchNorm2d(64),
            nn.ReLU(),
        )
        self.classify = nn.Linear(64 * 4 * 4, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.classify(torch.flatten(self.features(image), 1))


def build() -> nn.Module:
    """What artifactctl.yaml names as the source; the weights are loaded afterwards."""
    return SimpleCNN()
