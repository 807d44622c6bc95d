#!/bin/bash
# Run by sagemaker_train.py in each container of a SageMaker training job; SageMaker sets the SM_ variables.
set -euo pipefail

pip install --quiet './etude[train]'
exec torchrun --nnodes "$SM_HOST_COUNT" --nproc-per-node "$SM_NUM_GPUS" --node-rank "$SM_CURRENT_HOST_RANK" \
    --master-addr "$SM_MASTER_ADDR" --master-port 29500 --shutdown-timeout 3600 \
    -m etude.cli train recipe.toml -o "out=$SM_MODEL_DIR/run"
