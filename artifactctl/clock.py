"""What is left of a time budget."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Clock:
    budget_s: float
    began: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        return self.budget_s - (time.monotonic() - self.began)
