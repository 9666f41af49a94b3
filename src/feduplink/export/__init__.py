"""Policies as ONNX files, for software without Python or PyTorch.

:func:`feduplink.workflows.export_policy` exports a policy by name.

>>> import tempfile, torch
>>> from feduplink import GraphPolicy, Scenario, draw_csi
>>> from feduplink.export import OnnxPolicy, export_onnx
>>> policy = GraphPolicy.initialised(Scenario(workers=4))
>>> file = export_onnx(policy, tempfile.mkdtemp() + "/policy.onnx").file
>>> csi = draw_csi(Scenario(workers=5), 3, torch.Generator().manual_seed(0))
>>> OnnxPolicy(file).allocate(csi.numpy()).shape
(3, 5)
"""

from feduplink.export.onnx_file import ExportedPolicy, export_onnx
from feduplink.export.onnx_policy import OnnxPolicy

__all__ = ["ExportedPolicy", "OnnxPolicy", "export_onnx"]
