"""Trains the example on scikit-learn's bundled digits and writes its weights and a held-out set. Takes seconds.

python examples/simple_cnn/train.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from models.simple_cnn import build  # noqa: E402


def main() -> None:
    torch.manual_seed(0)
    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)[:, None]
    train_x, test_x, train_y, test_y = train_test_split(
        images, digits.target, test_size=360, random_state=0, stratify=digits.target
    )
    model = build()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    x, y = torch.from_numpy(train_x), torch.from_numpy(train_y)
    for _ in range(12):
        model.train()
        for part in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x[part]), y[part]).backward()
            optimizer.step()
    model.eval()
    with torch.no_grad():
        right = model(torch.from_numpy(test_x)).argmax(1).numpy() == test_y
    print(f"held-out accuracy {right.mean():.4f} on {len(test_y)} images")
    save_file(model.state_dict(), HERE / "models" / "simple_cnn.safetensors")
    np.savez(HERE / "data" / "samples.npz", image=test_x)
    np.save(HERE / "data" / "labels.npy", test_y.astype(np.int64))


if __name__ == "__main__":
    main()
