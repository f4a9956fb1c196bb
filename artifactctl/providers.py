"""The execution providers by the names users write, and what installs each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Provider:
    name: str
    execution_provider: str
    extra: str | None
    remark: str = ""
    device: str = "cpu"  # in Olive's words

    @property
    def install(self) -> str:
        if self.extra:
            return f"pip install 'artifactctl[{self.extra}]'"
        return f"install an ONNX Runtime that was built with {self.execution_provider}"


PROVIDERS = {
    provider.name: provider
    for provider in (
        Provider("cpu", "CPUExecutionProvider", "cpu"),
        Provider("cuda", "CUDAExecutionProvider", "gpu", "NVIDIA GPUs", device="gpu"),
        Provider("tensorrt", "TensorrtExecutionProvider", "gpu", "NVIDIA GPUs, with TensorRT installed", device="gpu"),
        Provider("openvino", "OpenVINOExecutionProvider", "openvino", "Intel CPUs, GPUs and NPUs"),
        Provider("directml", "DmlExecutionProvider", "directml", "Windows GPUs", device="gpu"),
        Provider("qnn", "QNNExecutionProvider", "qnn", "Qualcomm NPUs", device="npu"),
        Provider("webgpu", "WebGpuExecutionProvider", "webgpu", device="gpu"),
        Provider("coreml", "CoreMLExecutionProvider", "cpu", "macOS"),
        Provider("xnnpack", "XnnpackExecutionProvider", None),
        Provider("dnnl", "DnnlExecutionProvider", None),
        Provider("vitisai", "VitisAIExecutionProvider", None, device="npu"),
    )
}
