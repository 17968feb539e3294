"""The first lines of a log: what will be trained, on what, for how long. One `name: value` a line."""

from gputel.trainer.assemble import TrainingRun


def banner(run: TrainingRun) -> list[str]:
    plan, shape, where, options = run.plan, run.plan.shape, run.where, run.plan.options
    tokens = plan.budget.steps * plan.tokens_per_step
    lines = [
        f"Run: {run.folder.name} in {run.folder}",
        f"Model: depth {shape.depth}, dim {shape.dim}, {shape.heads} heads of {shape.head_dim}, "
        f"vocabulary {shape.vocab:,}, sequence {shape.seq:,}, dropout {options.dropout:g}",
        f"Number of parameters: {shape.parameters:,}",
        f"Estimated FLOPs per token: {shape.flops_per_token:.6e}",
        f"Data: {run.corpus.described}",
        f"Device: {where.device.type}, {where.size} ranks, {'bf16 autocast' if plan.bf16 else 'fp32'}, "
        f"{'compiled' if plan.compiled else 'eager'}, shard {options.shard}",
        f"Peak: {plan.peak_from}",
        f"Tokens / micro-batch / rank: {plan.device_batch} x {shape.seq} = {plan.device_batch * shape.seq:,}",
        f"Total batch size {plan.tokens_per_step:,} => gradient accumulation steps: {plan.accumulation}",
        f"Optimizer: {options.optimizer}, peak lr {plan.lr:.3e}, {options.schedule} after "
        f"{plan.schedule.warmup_steps} steps of warm-up, weight decay {options.weight_decay:g}, "
        f"gradients clipped at {options.grad_clip:g}",
        f"Total number of training tokens: {tokens:,} in {plan.budget.steps:,} steps",
        f"Tokens : Params ratio: {tokens / shape.parameters:.2f}",
        "The loss is the mean over all ranks and micro-batches; total time is that of all steps.",
    ]
    if plan.compiled:
        lines.append("The first step compiles the model, which takes minutes.")
    return lines
