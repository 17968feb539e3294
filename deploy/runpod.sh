#!/bin/bash
# The start command of each pod of a RunPod cluster, or of a single pod: bash deploy/runpod.sh train.py --depth 24
# Not run on RunPod: the variables are those of its documentation. Keys of the bucket: AWS_ACCESS_KEY_ID and so on.
set -euo pipefail
exec gputel record --sync "${BUCKET:-s3://bucket/runs}/${RUN:-d24}" -- \
  torchrun --nnodes="${NUM_NODES:-1}" --node_rank="${NODE_RANK:-0}" --nproc_per_node="${NUM_TRAINERS:-gpu}" \
    --master_addr="${PRIMARY_ADDR:-127.0.0.1}" --master_port="${PRIMARY_PORT:-29500}" "$@"
