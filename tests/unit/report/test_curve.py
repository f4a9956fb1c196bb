from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from artifactctl.report.curve import plot

SVG = "{http://www.w3.org/2000/svg}"


def point(layers: int, error: float | None, speed: float | None, *, holds: bool) -> dict[str, Any]:
    predicted = None if error is None else error / 2
    return {"layers": layers, "share": 0.1, "predicted_error": predicted, "max_error": error, "holds": holds} | {
        "speed_up": speed
    }


def curve(*points: dict[str, Any], max_abs: float | None = 1e-3) -> dict[str, Any]:
    return {"points": list(points), "bounds": {"default": {"max_abs": max_abs}, "outputs": {}}}


def texts(drawn: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(drawn).iter(f"{SVG}text")]


def test_each_set_is_a_point_and_its_prediction_a_ring() -> None:
    drawn = plot(curve(point(3, 4e-4, 1.2, holds=True), point(9, 2e-2, 1.8, holds=False)))
    circles = list(ElementTree.fromstring(drawn).iter(f"{SVG}circle"))
    assert [circle.get("fill") for circle in circles] == ["#1a7f37", "none", "#cf222e", "none"]
    left, _, right, _ = (float(circle.get("cx") or 0) for circle in circles)
    assert 60 < left < right < 620
    assert {"3", "9", "bound 0.001", "1e-4", "1e-1", "1.00 ×"} <= set(texts(drawn))


def test_everything_lies_inside_the_picture() -> None:
    drawn = plot(curve(point(1, 1e-12, 0.1, holds=True), point(2, 1e6, 30, holds=False), max_abs=None))
    for element in ElementTree.fromstring(drawn).iter():
        for key, limit in (("cx", 640), ("x", 640), ("x1", 640), ("cy", 400), ("y", 400), ("y1", 400)):
            assert 0 <= float(element.get(key) or 0) <= limit


def test_what_was_not_measured_is_not_drawn() -> None:
    drawn = plot(curve(point(1, None, 1.0, holds=False), point(2, 1e-3, None, holds=False)))
    assert "nothing could be measured" in texts(drawn)
    assert "<circle" not in drawn


def test_it_needs_nothing_from_elsewhere() -> None:
    drawn = plot(curve(point(3, 4e-4, 1.2, holds=True)))
    assert drawn.count("http") == 1  # the name of the format
    assert "<script" not in drawn
