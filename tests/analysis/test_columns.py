"""Which way of a metric is better, by its name."""

import pytest

from gputel.analysis import columns

LOWER = """
    loss val_loss train/loss validation_loss valLoss reward_loss loss_reward policy_loss kl_loss
    dice_loss loss_giou loss_avg loss.total memory_loss hellaswag_loss accuracy_loss losses/policy_loss
    loss_per_token per_token_loss nll nelbo ce cross_entropy mse rmse mae mape fid fid_score kid lpips
    LPIPS bpb val_bpb bpc bits_per_byte bits_per_dim perplexity ppl wikitext_ppl wer cer word_error_rate
    error error_rate top1_err eer false_positive_rate brier_score dt_ms step_s forward_pass_ms ms/step
    s/it time_per_step total_time_min latency latency_p99 memory memory_gib gpu_mem peak_memory
    j_per_token energy_j cost_usd
"""
HIGHER = """
    acc acc@1 acc_norm acc_norm,none accuracy val_accuracy accuracy_reward mmlu_acc mmlu mmlu_stem
    hellaswag arc_easy lambada_openai core_metric gsm8k top1 top5_acc pass@1 bleu BLEU-4 sacrebleu chrf
    rouge1 rougeL rouge-l map mAP mAP50 mAP@0.5:0.95 mIoU mean_iou dice f1 F1Score macro_f1 auc roc_auc
    psnr PSNR ssim MS-SSIM is inception_score recall@5 ndcg@10 exact_match r2 explained_variance reward
    mean_reward ep_rew_mean episode_return rewards/margins win_rate score mfu tok_per_sec
    tokens_per_sec_per_gpu tok/s it/s step/s samples_per_s train_samples_per_second gb_per_s
    tflops_per_gpu tokens_per_joule memory_bandwidth fps log_likelihood stoi
"""
UNKNOWN = """
    lr learning_rate lrm grad_norm gradNorm kl approx_kl entropy losses/entropy loss_scale loss_weight
    loss_std reward_std acc_stderr mmlu_acc_stderr epoch step total_steps tokens tokens_per_step
    min_tokens_per_step eta_min free_memory mem_util temp_c power_w flops top_p top_k acc_steps
    accumulated_steps num_correct clip_fraction remapped scoreboard coreset upper_body feature_map
    forward_pass is_best ep_len_mean rewards/rejected toxicity_score beta1
"""


@pytest.mark.parametrize("name", LOWER.split())
def test_lower_is_better(name: str) -> None:
    assert columns.better(name) == "lower"


@pytest.mark.parametrize("name", HIGHER.split())
def test_higher_is_better(name: str) -> None:
    assert columns.better(name) == "higher"


@pytest.mark.parametrize("name", UNKNOWN.split())
def test_direction_is_unknown(name: str) -> None:
    assert columns.better(name) is None


def test_direction_that_was_asked_for_goes_before_the_name() -> None:
    asked = columns.directions(["kl"], ["loss"])
    assert (columns.better("kl", asked), columns.better("loss", asked)) == ("lower", "higher")


@pytest.mark.parametrize("name", ["tok_per_sec", "tok/s", "steps_per_hour", "mfu", "dt_ms", "step_s"])
def test_rate_and_time_are_a_pace(name: str) -> None:
    assert columns.is_pace(name)


@pytest.mark.parametrize("name", ["loss", "upper_score", "mfunction", "loss_per_token", "memory_gib"])
def test_any_other_metric_is_no_pace(name: str) -> None:
    assert not columns.is_pace(name)
