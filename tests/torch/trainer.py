# SPDX-License-Identifier: Apache-2.0
"""A Trainer of Hugging Face's transformers on collet, 2 ranks: are all weights equal after 3 steps? Not part of `make test`:

    PYTHONPATH=FOLDER scripts/torch.sh run -m collet.run -n 2 tests/torch/trainer.py        # FOLDER has transformers and accelerate
"""
import sys
import tempfile

import torch
import torch.distributed as dist
from transformers import Trainer, TrainingArguments

import collet_torch  # noqa: F401


class Line(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict:
        return {"loss": ((x @ self.weight - y) ** 2).mean()}


def main() -> int:
    if "alone" not in sys.argv:  # accelerate keeps a group that is there; else it makes one of gloo on the CPU
        dist.init_process_group("collet")
    arguments = TrainingArguments(tempfile.mkdtemp(), ddp_backend="collet", use_cpu=True, max_steps=3, per_device_train_batch_size=2,
                                  report_to=[], save_strategy="no", disable_tqdm=True)
    data = [{"x": torch.arange(4.0) + k, "y": torch.tensor(float(k))} for k in range(16)]
    model = Line()
    Trainer(model=model, args=arguments, train_dataset=data).train()
    weights = [torch.empty(4) for _ in range(dist.get_world_size())]
    dist.all_gather(weights, model.weight.detach())
    assert all(torch.equal(weights[0], other) for other in weights) and not torch.equal(weights[0], torch.ones(4))
    if dist.get_rank() == 0:
        print(f"1 passed, 0 failed: trained on {dist.get_backend()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
