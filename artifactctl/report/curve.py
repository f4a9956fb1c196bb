"""evidence/quantization.svg: speed-up against error, one point for each set of layers that was made int8."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 400, 60, 20, 40, 60
GOOD, BAD, INK, PALE = "#1a7f37", "#cf222e", "#24292f", "#d0d7de"
TITLE = "int8 by layers: speed-up against the largest error"


def plot(curve: Mapping[str, Any]) -> str:
    """Self-contained; its colours can be told apart on white, which is its ground."""
    points = [point for point in curve["points"] if point["max_error"] and point["speed_up"]]
    bound = curve["bounds"]["default"].get("max_abs")
    body = _Axes(points, bound).body() if points else _text(WIDTH / 2, HEIGHT / 2, "nothing could be measured")
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    style = f'font-family="sans-serif" font-size="12" fill="{INK}" role="img"'
    ground = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>'
    return f"{head} {style}>\n<title>{TITLE}</title>\n{ground}\n{_text(WIDTH / 2, 22, TITLE, 14)}\n{body}\n</svg>\n"


class _Axes:
    """Errors by their powers of ten, from left to right; speed-ups from below 1 upwards."""

    def __init__(self, points: list[Mapping[str, Any]], bound: float | None) -> None:
        self._points, self._bound = points, bound
        errors = [point[key] for point in points for key in ("max_error", "predicted_error") if point[key]]
        errors += [bound] if bound else []
        self._low, self._high = math.floor(math.log10(min(errors))), math.ceil(math.log10(max(errors)))
        self._high = max(self._high, self._low + 1)
        self._top = max(1.0, *(point["speed_up"] for point in points)) * 1.1
        self._base = min(1.0, *(point["speed_up"] for point in points)) * 0.9

    def body(self) -> str:
        line = " ".join(f"{self._x(point['max_error']):.1f},{self._y(point['speed_up']):.1f}" for point in self._points)
        parts = [*self._grid(), f'<polyline points="{line}" fill="none" stroke="{PALE}" stroke-width="2"/>']
        for point in self._points:
            parts += self._marks(point)
        return "\n".join([*parts, *_legend()])

    def _x(self, error: float) -> float:
        part: float = (math.log10(error) - self._low) / (self._high - self._low)
        return LEFT + part * (WIDTH - LEFT - RIGHT)

    def _y(self, speed: float) -> float:
        part: float = (speed - self._base) / (self._top - self._base)
        return HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM)

    def _grid(self) -> list[str]:
        floor, parts = HEIGHT - BOTTOM, []
        for power in range(self._low, self._high + 1):
            x = self._x(10.0**power)
            parts += [_line(x, TOP, x, floor, PALE), _text(x, floor + 16, f"1e{power}")]
        for speed in sorted({1.0, round(self._base, 2), round(self._top, 2)}):
            parts.append(_text(LEFT - 24, self._y(speed) + 4, f"{speed:.2f} ×"))
        same = self._y(1.0)
        parts.append(_line(LEFT, same, WIDTH - RIGHT, same, INK))
        if self._bound:
            x = self._x(self._bound)
            parts += [_line(x, TOP, x, floor, BAD), _text(x, TOP - 4, f"bound {self._bound:g}")]
        return [*parts, _text(WIDTH / 2, floor + 34, "largest error of the outputs, as the bound counts it")]

    def _marks(self, point: Mapping[str, Any]) -> list[str]:
        y, colour = self._y(point["speed_up"]), GOOD if point["holds"] else BAD
        x = self._x(point["max_error"])
        parts = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}"/>']
        if point["predicted_error"]:
            seen = self._x(point["predicted_error"])
            parts.append(f'<circle cx="{seen:.1f}" cy="{y:.1f}" r="5" fill="none" stroke="{colour}"/>')
        return [*parts, _text(x, y - 10, f"{point['layers']}")]


def _legend() -> list[str]:
    said = "numbers: layers in int8 · full: proved, green holds, red does not · ring: predicted"
    return [_text(WIDTH / 2, HEIGHT - 8, said, 11)]


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _text(x: float, y: float, words: str, size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="middle">{words}</text>'
