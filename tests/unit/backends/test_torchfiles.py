from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from artifactctl.backends import torchfiles
from artifactctl.errors import SourceError


def net() -> torch.nn.Linear:
    return torch.nn.Linear(3, 2)


def save_program(model: torch.nn.Module, path: Path) -> None:
    torch.export.save(torch.export.export(model, (torch.zeros(1, 3),)), path)


WRITERS: dict[str, Callable[[torch.nn.Module, Path], None]] = {
    "state.pt": lambda model, path: torch.save(model.state_dict(), path),
    "old.pt": lambda model, path: torch.save(model.state_dict(), path, _use_new_zipfile_serialization=False),
    "nested.pt": lambda model, path: torch.save({"state_dict": model.state_dict(), "epoch": 3}, path),
    "state.safetensors": lambda model, path: save_file(model.state_dict(), path),
    "module.pt": torch.save,
    "script.pt": lambda model, path: torch.jit.save(torch.jit.script(model), path),
    "program.pt2": save_program,
    "text.pt": lambda model, path: path.write_text("hello"),
    "empty.pt": lambda model, path: path.write_bytes(b""),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("torch")
    for name, save in WRITERS.items():
        save(net(), folder / name)
    whole = (folder / "state.pt").read_bytes()
    (folder / "truncated.pt").write_bytes(whole[: len(whole) // 2])
    return folder


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("state.pt", "pickle"),
        ("old.pt", "pickle"),
        ("module.pt", "pickle"),
        ("script.pt", "torchscript"),
        ("program.pt2", "exported_program"),
        ("text.pt", "other"),
        ("empty.pt", "other"),
        ("truncated.pt", "other"),
    ],
)
def test_what_a_file_is(files: Path, name: str, kind: str) -> None:
    assert torchfiles.kind_of(files / name) == kind


def test_a_missing_file(files: Path) -> None:
    for read in (torchfiles.kind_of, torchfiles.load_script, torchfiles.load_program):
        with pytest.raises(SourceError, match=r"nothing.pt is missing"):
            read(files / "nothing.pt")


@pytest.mark.parametrize("name", ["state.pt", "old.pt", "nested.pt", "state.safetensors"])
def test_weights_are_loaded(files: Path, name: str) -> None:
    model = net()
    before = model.weight.detach().clone()
    torchfiles.load_weights(model, files / name)
    assert not torch.equal(model.weight, before)
    again = net()
    torchfiles.load_weights(again, files / name)
    assert torch.equal(model.weight, again.weight)


def test_a_pickled_module_is_refused_with_the_way_out(files: Path) -> None:
    with pytest.raises(SourceError, match=r"module.pt needs code to be loaded") as caught:
        torchfiles.load_weights(net(), files / "module.pt")
    assert "safetensors.torch.save_file(model.state_dict(), FILE)" in caught.value.hint


def test_a_refusal_has_no_colour_codes(files: Path) -> None:
    with pytest.raises(SourceError) as caught:
        torchfiles.load_weights(net(), files / "module.pt")
    assert "\x1b" not in str(caught.value)


class Evil:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return Path.touch, (self.marker,)


def test_code_in_a_pickle_is_never_run(tmp_path: Path) -> None:
    torch.save({"weight": Evil(tmp_path / "owned")}, tmp_path / "evil.pt")
    with pytest.raises(SourceError):
        torchfiles.load_weights(net(), tmp_path / "evil.pt")
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("script.pt", "is a TorchScript file"),
        ("program.pt2", "is an exported program"),
        ("text.pt", "is not a file that torch wrote"),
        ("truncated.pt", "is not a file that torch wrote"),
    ],
)
def test_other_files_are_no_weights(files: Path, name: str, message: str) -> None:
    with pytest.raises(SourceError, match=rf"{name} {message}"):
        torchfiles.load_weights(net(), files / name)


def test_keys_that_do_not_fit(tmp_path: Path) -> None:
    state = net().state_dict()
    cases = {
        "missing: bias": {"weight": state["weight"]},
        "not in the model: more": state | {"more": torch.zeros(1)},
        r"other shape: weight \[4, 3\] instead of \[2, 3\]": state | {"weight": torch.zeros(4, 3)},
    }
    for suffix, save in (("safetensors", save_file), ("pt", torch.save)):
        path = tmp_path / f"w.{suffix}"
        for message, content in cases.items():
            save(content, path)
            model = net()
            before = model.weight.detach().clone()
            with pytest.raises(SourceError, match=rf"w.{suffix} does not fit the model; {message}"):
                torchfiles.load_weights(model, path)
            assert torch.equal(model.weight, before)


def test_everything_that_does_not_fit_is_told_at_once(tmp_path: Path) -> None:
    save_file({"weight": torch.zeros(4, 3), "more": torch.zeros(1)}, tmp_path / "w.safetensors")
    with pytest.raises(SourceError) as caught:
        torchfiles.load_weights(net(), tmp_path / "w.safetensors")
    assert all(part in str(caught.value) for part in ("missing: bias", "not in the model: more", "other shape: weight"))


def test_what_is_no_state_dict(tmp_path: Path) -> None:
    for content in (torch.zeros(2), [torch.zeros(2)], {"weight": 3}):
        torch.save(content, tmp_path / "w.pt")
        with pytest.raises(SourceError, match="not a state dict"):
            torchfiles.load_weights(net(), tmp_path / "w.pt")


def test_damaged_safetensors(tmp_path: Path) -> None:
    save_file(net().state_dict(), tmp_path / "w.safetensors")
    whole = (tmp_path / "w.safetensors").read_bytes()
    for content in (b"", whole[:20], whole[:-4], b"text that is long enough to be a header"):
        (tmp_path / "w.safetensors").write_bytes(content)
        with pytest.raises(SourceError, match="not a whole safetensors file"):
            torchfiles.load_weights(net(), tmp_path / "w.safetensors")


def test_scripts_and_programs_are_loaded_in_their_own_way(files: Path) -> None:
    assert torchfiles.load_script(files / "script.pt")(torch.zeros(1, 3)).shape == (1, 2)
    assert torchfiles.load_program(files / "program.pt2").module()(torch.zeros(1, 3)).shape == (1, 2)


@pytest.mark.parametrize(
    ("load", "name", "use"),
    [
        (torchfiles.load_script, "program.pt2", "exported_program: FILE"),
        (torchfiles.load_script, "state.pt", "torch: file.py:build"),
        (torchfiles.load_program, "script.pt", "torchscript: FILE"),
        (torchfiles.load_program, "module.pt", "weights: FILE"),
        (torchfiles.load_program, "text.pt", "torch.export.save"),
    ],
)
def test_a_file_of_another_kind_says_how_to_use_it(
    files: Path, load: Callable[[Path], object], name: str, use: str
) -> None:
    with pytest.raises(SourceError, match=rf"{name} is ") as caught:
        load(files / name)
    assert use in caught.value.hint
