"""Names that programs without a format of their own use, on top of the shared vocabulary.

They give a log of an unknown program the same columns as the others.
"""

from __future__ import annotations

import re

FOREIGN = {
    **dict.fromkeys("up upd nupdates total_train_updates gstep s steps num_batches_tracked".split(), "step"),
    **dict.fromkeys("n_iter i iter_i generation".split(), "iteration"),
    **dict.fromkeys("step_no step_number".split(), "step"),
    **dict.fromkeys("iter_no iteration_no iter_number iteration_number".split(), "iteration"),
    **dict.fromkeys(
        "e epoch_no epoch_number epoch_num epoch_id epoch_idx epoch_loaded pass pass_id".split(), "epoch"
    ),
    **dict.fromkeys("b minibatches mini_batches batch_i".split(), "batch"),
    **dict.fromkeys(
        "tot_loss loss_tot minibatch_loss mini_batch_loss rl_loss curr_loss score_at_iteration lossvalue".split(),
        "loss",
    ),
    **dict.fromkeys("sen smpl".split(), "samples"),
    **dict.fromkeys("ms_batch".split(), "dt_ms ms"),
    **dict.fromkeys(
        "s_batch s_b sec_batch sec_iter time_batch time_step time_iter batch_cost avg_batch_cost step_cost".split(),
        "dt_ms s",
    ),
    **dict.fromkeys("iter_cost interval_runtime updt_s".split(), "dt_ms s"),
    **dict.fromkeys("tgs ips_tokens words_s tokens_s toks_s w_s".split(), "tok_per_sec"),
    **dict.fromkeys("grad grad_l2 total_grad_norm grdn".split(), "grad_norm"),
    **dict.fromkeys("base_lr rate l_r lrate optim0_lr0".split(), "lr"),
    **dict.fromkeys("eta_seconds".split(), "eta_min s"),
    **dict.fromkeys("val valid validation test".split(), "val_loss"),
    **dict.fromkeys(
        "cv_loss va_loss heldout_nll held_out_nll val_nll valid_nll dev_nll test_nll eval_nll".split(),
        "val_loss",
    ),
    **dict.fromkeys(
        "val_ce validation_nll validation_ce eval_cross_entropy val_cross_entropy validation_cross_entropy "
        "valid_cross_entropy test_cross_entropy dev_cross_entropy".split(),
        "val_loss",
    ),
    **dict.fromkeys("val_cost valid_cost validation_cost test_cost eval_cost".split(), "val_loss"),
}

# Measures that are trained on, the likeliest first: the loss, where no value has that name.
LOSSES = (
    "nll xent cross_entropy crossentropy ce ce_loss crossentropyloss total_cost cost objective "
    "objective_function objf trained_nll trained_xent trained_ce trained_ce_loss trained_cross_entropy "
    "trained_crossentropyloss "
    "trained_logloss trained_log_loss trained_mlogloss trained_binary_logloss trained_multi_logloss "
    "trained_multiclass trained_rmse trained_mse trained_mae trained_l2 trained_l1 trained_error trained_err "
    "trained_deviance traindeviance learn criterion nll_loss bits_per_token main_loss bce trained_bce "
    "l l_total l_tot l_all l_sum l_final train"
).split()
# Their sum, where parts stand beside it.
TOTALS_OF_PARTS = (
    "total tot losses loss_sum sum_loss losses_sum full_loss joint_loss combined_loss final_loss "
    "sum all overall combined"
).split()
# A total by its full name, beside a single part; as an average it has no column yet.
FULL_TOTALS = ("total_loss", "overall_loss", "loss_total", "loss_overall", "total_cost")
# Those that a training may also raise.
OBJECTIVES = {"objective", "objective_function", "objf"}
TRAINED = re.compile(r"^train(?:ing|ed)?(?:_s)?_")
# Words that may stand around such a name.
CURRENT = re.compile(r"^(?:(?:current|cur|this)_)?(?:(?:mini)?batch_)?")
AVERAGED = re.compile(r"(?:^|_)(?:overall|global|running|average|aver|avg|mean|smoothed|moving)(?=_|$)")
OF = re.compile(r"_(?:for|over|on)_.*$")
# Beside one of these, `total` is their sum: the loss. Two of them are parts, and neither is the loss.
PARTS = re.compile(
    r"(?i)(?:^|_)(?:main|aux\w*|policy|pi|value|mse|reg|kld?|bce|ce|nll|cross_?entropy|xent|smooth_?l1|l1|l2|dice|focal|box|obj|cls"
    r"|recon\w*|rec|adv)(?:$|_)"
)

# Measures of a model, in training or on held-out data.
MEASURE = re.compile(
    r"(?i)loss|acc|ppl|perplex|bpb|bpc|f1|bleu|rouge|wer|cer|map|auc|iou|dice|score|error|(?<![a-z])err|rmse|mae|mse|reward|psnr|ssim"
    r"|(?<![a-z])returns?(?![a-z])|lpips|fid|em$|precision|recall|h-?mean|log_?prob"
    r"|(?<![a-z])(?:auroc|auprc?|ari|nmi|mbo|mpjpe|pck|mrr?|ndcg|meteor|cider|spice|eer|min_?dcf|kappa|qwk|pearson|spearman|jaccard|dsc|nsd|hd_?95"
    r"|ap\d{0,2}|si[-_ ]?snr|(?:si[-_ ]?)?sdri?|pesq|stoi)(?![a-z])"
    r"|(?<![a-z])(?:hits?(?:[@_ ]|_at_)|rank-|top[-_ ]?|[rp]@)\d"
)
# Any score, by the set it is measured on.
NAMED_BY_SET = re.compile(
    r"(?i)(?:eval|vali?|valid|validation|test|dev)[_/]"
    r"(?!\w*(?:time|sec|size|ratio|frac|split|samples|steps|batch|epoch|num|count|speed|lr|interval))\w+"
    r"|(?:cv_agg|(?:eval|vali?|valid|test|dev)(?:_\w+)?)'s (?:(?:eval|vali?|valid|test) )?[\w@-]+"
)
SETS = {"train", "training", "eval", "valid", "val", "test", "validation"}
SHARES = frozenset(b"split ratio fraction share proportion size".split())
# Step times, unless they run on, or a word says that they are longer than a step.
TIMES = {"time", "took", "elapsed", "duration", "cost", "seconds", "secs"}
LONGER = re.compile(r"(?i)(?:^|[\W_])(?:episode|game|generation|rollout|total|remaining)(?:$|[\W_])")
SPANS = {"took", "in", "left"}  # words that name a time if it has a unit
LEFT = {"eta", "left", "remaining", "remains", "togo"}  # times until the end
ENTIRE = {"of", "total", "max", "out of", "total steps", "max steps"}
RATES = {"throughput", "speed", "rate", "performance"}  # of tokens, where the unit says so
TOKEN_RATES = {"tok/s", "tok/sec", "toks/s", "tokens/s", "tokens/sec", "token/s", "tokens/second"}
# A loss by another name, if it is the only one: `NER loss`. These names are of parts, and of regularizers.
LOSS = re.compile(
    r"(?i)^(?!\w*best_)(?!(?:min|max|minimum|lowest|smallest|actor\w*|critic\w*|aux\w*|entropy|gen|generator|disc\w*|d|g|style|content|commit\w*|perceptual|z)_)"
    r"(?:\w+_loss|loss_(?!scal|weight|coe|factor|avg|auc|acc|(?:d|g|p|pi|v|q\d?|value|policy|actor|critic)$|disc|gen|enc|dec|\d)[a-z]\w*"
    r"|(?:mse|l1|bce|nll|ce|crossentropy|smoothl1|huber|focal|dice|ctc)loss)$"
)
# figures of a loss that are none
OF_LOSS = re.compile(r"(?i)(?<![a-z])loss_(?:scal|auc|acc)")
# `cutloss` or `LossV`, a loss of something
GLUED = re.compile(r"(?i:(?<!val)(?<!train)(?<!valid)(?<!test)[^\W_]loss$)|^Loss[A-Z]\w*$")
# Any loss with a name of its own: of several such parts none is the loss
PART_LOSS = re.compile(
    r"(?i)^(?!\w*best_)(?!(?:min|max|minimum|maximum|lowest|smallest|highest)_)"
    r"(?:\w*[^\W_]_loss|loss_(?!scal|weight|coe|factor|avg|mean|ema|smooth|std|sum|all|total|tot$|diff|delta|chang)[^\W_]\w*)$"
)
# Measures that share a word with a part: `dice score`
SCORED = re.compile(r"(?i)(?:score|acc\w*|coe\w*|iou|similarity|metric|map|ap\d*)$")
# Scores that are computed on held-out data.
HELD_OUT_SCORE = re.compile(
    r"(?i)(?:^|[\W_])(?:psnr|ssim|lpips|fid|bleu\S*|rouge\S*|meteor|cider|spice|mrr|ndcg\S*|hits?[@_]\d+"
    r"|rank-\d+|eer|min_?dcf|wer|cer|m?ap\S*|mIoU|dice|(?:recall|precision|[rp])@\d+)(?:$|[\W_])"
)
# Losses of networks that play against each other: such a run has no total.
OPPOSED = re.compile(r"(?i)^(?:gen|generator|disc|discriminator|d|g|style|content|perceptual)_(?:\w+_)?loss$")
# Measures that say what they are only together with the place.
NAMED_AT = {"score at iteration"}
