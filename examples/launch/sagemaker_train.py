"""A training job on Amazon SageMaker, with the SDK ``sagemaker-train``.

``python sagemaker_train.py FOLDER ROLE IMAGE``: FOLDER holds recipe.toml, a checkout of Etude in ``etude/``, and
``sagemaker.sh``, which is beside this file. ROLE is the ARN of the execution role, IMAGE a training image with PyTorch.
The run's folder is uploaded when the job ends.
"""

import sys
from typing import Any

from sagemaker.core.training.configs import Compute, SourceCode
from sagemaker.train import ModelTrainer


def job(folder: str, role: str, image: str) -> dict[str, Any]:
    """Return the arguments of ``ModelTrainer``: two instances with eight GPUs each."""
    return {
        "training_image": image,
        "role": role,
        "source_code": SourceCode(source_dir=folder, command="bash sagemaker.sh"),
        "compute": Compute(instance_type="ml.p5.48xlarge", instance_count=2, volume_size_in_gb=500),
        "base_job_name": "etude-train",
    }


if __name__ == "__main__":
    ModelTrainer(**job(*sys.argv[1:4])).train()
