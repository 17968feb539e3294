# ruff: noqa: E501 (a template is a line of a log and reads as one)
"""Images: classifiers, detectors, diffusion models, and the libraries that they are trained with."""

from __future__ import annotations

from tests.analysis.printed import Printed, clock, falling, lines


def bar(at: int, total: int, glyph: str = "█") -> str:
    return f"{at * 100 // total:3d}%|{glyph * (at * 10 // total):10}| {at}/{total}"


yolov5 = Printed(
    "yolov5",
    "train.py of ultralytics/yolov5",
    lines(
        "train: weights=yolov5s.pt, cfg=, data=data/coco128.yaml, hyp=data/hyps/hyp.scratch-low.yaml, epochs=20, batch_size=16, imgsz=640",
        "hyperparameters: lr0=0.01, lrf=0.01, momentum=0.937, weight_decay=0.0005, warmup_epochs=3.0, box=0.05, cls=0.5",
        "                 from  n    params  module                                  arguments",
        "  0                -1  1      3520  models.common.Conv                      [3, 32, 6, 2, 2]",
        "  1                -1  1     18560  models.common.Conv                      [32, 64, 3, 2]",
        "YOLOv5s summary: 214 layers, 7235389 parameters, 7235389 gradients, 16.6 GFLOPs",
        "Starting training for 20 epochs...",
        *(
            "\n      Epoch    GPU_mem   box_loss   obj_loss   cls_loss  Instances       Size\n"
            + "\r".join(
                f"{epoch:8d}/19      3.7G    {falling(epoch, 0.1, 0.02) + (8 - at) / 1000:.5f}    0.06{epoch:03d}    0.01{epoch:03d}        {200 + at}        640: "
                f"{bar(at, 8)} [00:{at:02d}<00:08,  1.1{at}it/s]"
                for at in range(1, 9)
            )
            + "\n                 Class     Images  Instances          P          R      mAP50   mAP50-95: "
            + "\r".join(f"{bar(at, 4)} [00:01<00:02]" for at in range(1, 5))
            + f"\n                   all        128        929      0.7{epoch:02d}      0.6{epoch:02d}      0.6{epoch:02d}      0.4{epoch:02d}"
            for epoch in range(20)
        ),
        "20 epochs completed in 0.112 hours.",
        "Optimizer stripped from runs/train/exp/weights/last.pt, 14.9MB",
        "Results saved to runs/train/exp",
    ),
    20,
    (0, None),
    (19, None),
    {"map50_95": (20, 0.400)},
    ("box_loss", "obj_loss", "cls_loss"),
    status="completed",
)

yolov7 = Printed(
    "yolov7",
    "train.py of WongKinYiu/yolov7",
    lines(
        "autoanchor: Analyzing anchors... anchors/target = 5.50, Best Possible Recall (BPR) = 0.9960",
        "Image sizes 640 train, 640 test",
        "Starting training for 10 epochs...",
        *(
            "\n     Epoch   gpu_mem       box       obj       cls     total    labels  img_size\n"
            + "\r".join(
                f"{f'{epoch}/9':>10}{'11.1G':>10}{falling(epoch, 0.1, 0.02):10.4g}{0.02 + epoch / 1000:10.4g}{0.01:10.4g}{falling(epoch) + (8 - at) / 100:10.4g}{30 + at:10d}{640:10d}: "
                f"{bar(at, 8)} [00:{at:02d}<00:08,  1.1{at}it/s]"
                for at in range(1, 9)
            )
            + f"\n{'Class':>20}{'Images':>12}{'Labels':>12}{'P':>12}{'R':>12}{'mAP@.5':>12}{'mAP@.5:.95':>12}: {bar(4, 4)} [00:01<00:02]"
            + f"\n{'all':>20}{128:12d}{929:12d}{0.7:12.3g}{0.6:12.3g}{0.61:12.3g}{0.401 + epoch / 1000:12.3g}"
            for epoch in range(10)
        ),
        "10 epochs completed in 0.112 hours.",
    ),
    10,
    (0, float(f"{falling(0):.4g}")),
    (9, float(f"{falling(9):.4g}")),
    {"map50_95": (10, 0.401)},
    ("box", "obj"),
    status="completed",
)

detectron2 = Printed(
    "detectron2",
    "detectron2/utils/events.py: CommonMetricPrinter; detectron2/evaluation/testing.py",
    lines(
        "[05/01 10:00:00] detectron2 INFO: Rank of current process: 0. World size: 1",
        "[05/01 10:00:01 d2.data.build]: Distribution of instances among all 3 categories:",
        "|  category  | #instances   |  category  | #instances   |",
        "|:----------:|:-------------|:----------:|:-------------|",
        "|    cat     | 1234         |    dog     | 2345         |",
        "[05/01 10:00:02 d2.engine.train_loop]: Starting training from iteration 0",
        *(
            f"[05/01 {clock(36003 + i)} d2.utils.events]:  eta: 0:{59 - i % 60:02d}:12  iter: {20 * i + 19}  total_loss: {falling(i)}  loss_cls: 0.5{i:02d}  loss_box_reg: 0.4{i:02d}  "
            f"loss_mask: 0.6{i:02d}    time: 0.31{i:02d}  last_time: 0.3211  data_time: 0.0101  last_data_time: 0.0041   lr: {1e-5 * (20 * i + 20):.5g}  max_mem: 3412M"
            for i in range(49)
        ),
        "[05/01 10:05:00 fvcore.common.checkpoint]: Saving checkpoint to ./output/model_final.pth",
        "[05/01 10:05:01 d2.utils.events]:  eta: 0:00:00  iter: 999  total_loss: 0.6112  loss_cls: 0.1  loss_box_reg: 0.2    time: 0.3112  data_time: 0.0101  lr: 0.01  max_mem: 3412M",
        "[05/01 10:05:02 d2.engine.hooks]: Overall training speed: 998 iterations in 0:05:10 (0.3112 s / it)",
        "[05/01 10:05:02 d2.engine.hooks]: Total training time: 0:05:12 (0:00:02 on hooks)",
        "[05/01 10:05:09 d2.evaluation.evaluator]: Inference done 11/100. Dataloading: 0.0011 s/iter. Inference: 0.0612 s/iter. Eval: 0.0102 s/iter. Total: 0.0725 s/iter. ETA=0:00:06",
        "[05/01 10:05:09 d2.evaluation.evaluator]: Inference done 81/100. Dataloading: 0.0012 s/iter. Inference: 0.0613 s/iter. Eval: 0.0101 s/iter. Total: 0.0726 s/iter. ETA=0:00:01",
        "[05/01 10:05:12 d2.evaluation.testing]: copypaste: Task: bbox",
        "[05/01 10:05:12 d2.evaluation.testing]: copypaste: AP,AP50,AP75,APs,APm,APl",
        "[05/01 10:05:12 d2.evaluation.testing]: copypaste: 40.2123,61.0231,43.8123,24.1123,43.5123,52.0123",
    ),
    50,
    (19, falling(0)),
    (999, 0.6112),
    {},
    ("lr", "loss_cls", "dt_ms"),
    events={"checkpoint": 1},
    status="completed",
)

mmpretrain = Printed(
    "mmpretrain",
    "mmengine/hooks/logger_hook.py",
    lines(
        "05/01 10:00:00 - mmengine - INFO - ",
        "------------------------------------------------------------",
        "System environment:",
        "    sys.platform: linux",
        "    GPU 0: NVIDIA A100-SXM4-80GB",
        "Config:",
        "auto_scale_lr = dict(base_batch_size=256)",
        "optim_wrapper = dict(",
        "    optimizer=dict(lr=0.1, momentum=0.9, type='SGD', weight_decay=0.0001))",
        *(
            "\n".join(
                [
                    *(
                        f"05/01 {clock(36000 + 100 * epoch + i)} - mmengine - INFO - Epoch(train)   [{epoch}][{100 * i:3d}/391]  lr: 1.0000e-01  eta: 0:0{9 - epoch}:10  time: 0.02{i}1  data_time: 0.0012  memory: 345  loss: {falling(4 * epoch + i)}"
                        for i in range(1, 4)
                    ),
                    f"05/01 {clock(36090 + 100 * epoch)} - mmengine - INFO - Saving checkpoint at {epoch} epochs",
                    f"05/01 {clock(36095 + 100 * epoch)} - mmengine - INFO - Epoch(val) [{epoch}][79/79]    accuracy/top1: {40 + epoch}.1200  data_time: 0.0211  time: 0.0345",
                ]
            )
            for epoch in range(1, 9)
        ),
    ),
    24,
    (100, falling(5)),
    (7 * 391 + 300, falling(35)),
    {"accuracy_top1": (8, 41.12)},
    ("lr", "dt_ms"),
    events={"checkpoint": 8},
)

mmcv = Printed(
    "mmsegmentation",
    "mmcv/runner/hooks/logger/text.py, mmcv 1",
    lines(
        "2022-05-01 10:00:00,123 - mmseg - INFO - Set random seed to 1, deterministic: False",
        "2022-05-01 10:00:01,123 - mmseg - INFO - workflow: [('train', 1)], max: 160000 iters",
        *(
            f"2022-05-01 {clock(36002 + i)},123 - mmseg - INFO - Iter [{50 * i}/160000]\tlr: {1e-6 * i:.3e}, eta: 1 day, 2:03:{i:02d}, time: 0.5{i:02d}, data_time: 0.005, memory: 9123, "
            f"decode.loss_ce: 2.1{i:02d}, decode.acc_seg: 10.{i:02d}, aux.loss_ce: 0.9{i:02d}, loss: {falling(i)}"
            for i in range(1, 41)
        ),
        "2022-05-01 10:10:00,123 - mmseg - INFO - Saving checkpoint at 2000 iterations",
        "2022-05-01 10:11:00,123 - mmseg - INFO - per class results:",
        "2022-05-01 10:11:00,123 - mmseg - INFO - ",
        "+---------------------+-------+-------+",
        "|        Class        |  IoU  |  Acc  |",
        "+---------------------+-------+-------+",
        "|         wall        | 62.65 | 79.87 |",
        "+---------------------+-------+-------+",
        "2022-05-01 10:11:01,123 - mmseg - INFO - Iter(val) [250]\taAcc: 0.6123, mIoU: 0.1845, mAcc: 0.2512",
    ),
    40,
    (50, falling(1)),
    (2000, falling(40)),
    {"mIoU": (1, 0.1845)},
    ("lr", "dt_ms"),
    total=160000,
    events={"checkpoint": 1},
)

paddleocr = Printed(
    "paddleocr",
    "tools/program.py of PaddleOCR",
    lines(
        "[2022/05/01 10:00:00] ppocr INFO: Architecture : ",
        "[2022/05/01 10:00:00] ppocr INFO:     Backbone : ",
        "[2022/05/01 10:00:00] ppocr INFO:         scale : 0.5",
        "[2022/05/01 10:00:00] ppocr INFO: train with paddle 2.3.0 and device CUDAPlace(0)",
        "[2022/05/01 10:00:02] ppocr INFO: During the training process, after the 3000th iteration, an evaluation is run every 2000 iterations",
        *(
            f"[2022/05/01 {clock(36003 + i)}] ppocr INFO: epoch: [{1 + i // 20}/500], global_step: {10 * i}, lr: {1e-6 * i:.6f}, loss: {falling(i):.6f}, loss_shrink_maps: 4.8{i:02d}, "
            f"loss_threshold_maps: 1.1{i:02d}, avg_reader_cost: 0.5{i:02d} s, avg_batch_cost: 1.2{i:02d} s, avg_samples: 8.0, ips: 6.6{i:02d} samples/s, eta: 1 day, 2:03:{i:02d}"
            for i in range(1, 41)
        ),
        "[2022/05/01 10:05:00] ppocr INFO: cur metric, precision: 0.4123, recall: 0.3512, hmean: 0.3793, fps: 22.1",
        "[2022/05/01 10:05:01] ppocr INFO: save best model is to ./output/db_mv3/best_accuracy",
        "[2022/05/01 10:05:01] ppocr INFO: best metric, hmean: 0.3793, precision: 0.4123, recall: 0.3512, fps: 22.1, best_epoch: 2",
        "[2022/05/01 10:05:02] ppocr INFO: save model in ./output/db_mv3/latest",
    ),
    40,
    (10, round(falling(1), 6)),
    (400, round(falling(40), 6)),
    {},
    ("lr", "loss_shrink_maps"),
)

paddleseg = Printed(
    "paddleseg",
    "paddleseg/core/train.py",
    lines(
        "2022-05-01 10:00:00 [INFO]\t",
        "------------Environment Information-------------",
        "platform: Linux-5.4.0",
        "GPUs used: 1",
        *(
            f"2022-05-01 {clock(36003 + i)} [INFO]\t[TRAIN] epoch: {1 + i // 20}, iter: {10 * i}/1000, loss: {falling(i)}, lr: 0.00{9999 - i}, batch_cost: 0.2{i:02d}, reader_cost: 0.01234, "
            f"ips: 20.1{i:02d} samples/sec | ETA 00:03:{59 - i:02d}"
            + (
                f"\n2022-05-01 10:05:00 [INFO]\tStart evaluating (total_samples: 76, total_iters: 76)...\n2022-05-01 10:05:01 [INFO]\t[EVAL] #Images: 76, mIoU: 0.{5000 + i}, Acc: 0.{9000 + i}, Kappa: 0.{6000 + i}, Dice: 0.{7000 + i}"
                f"\n2022-05-01 10:05:01 [INFO]\t[EVAL] Class IoU: \n[0.9  0.5{i:02d}]"
                if i % 20 == 0
                else ""
            )
            for i in range(1, 61)
        ),
    ),
    60,
    (10, falling(1)),
    (600, falling(60)),
    {"mIoU": (3, 0.502)},
    ("lr", "dt_ms"),
    total=1000,
)

paddleclas = Printed(
    "paddleclas",
    "ppcls/engine/train/utils.py",
    lines(
        *(
            f"[2022/05/01 {clock(36003 + 20 * epoch + i)}] ppcls INFO: [Train][Epoch {epoch}/5][Iter: {10 * i}/150]lr(CosineAnnealingDecay): 0.0{9000 - i}, top1: 0.1{i:02d}, top5: 0.3{i:02d}, CELoss: {falling(15 * epoch + i):.5f}, "
            f"loss: {falling(15 * epoch + i):.5f}, batch_cost: 0.1{i:02d}s, reader_cost: 0.012, ips: 160.2 samples/s, eta: 0:10:{i:02d}"
            + (
                f"\n[2022/05/01 10:05:00] ppcls INFO: [Train][Epoch {epoch}/5][Avg]top1: 0.2, top5: 0.4, CELoss: 4.1, loss: 4.1"
                f"\n[2022/05/01 10:05:01] ppcls INFO: [Eval][Epoch {epoch}][Iter: 0/20]CELoss: 4.51, loss: 4.51, top1: 0.1, top5: 0.3, batch_cost: 1.2s, reader_cost: 1.1, ips: 60.1 images/sec"
                f"\n[2022/05/01 10:05:02] ppcls INFO: [Eval][Epoch {epoch}][Avg]CELoss: 4.{60 - epoch}, loss: 4.{60 - epoch}, top1: 0.1{epoch}, top5: 0.31"
                if i == 14
                else ""
            )
            for epoch in range(1, 6)
            for i in range(15)
        ),
    ),
    75,
    (0, round(falling(15), 5)),
    (4 * 150 + 140, round(falling(89), 5)),
    {"val_loss": (10, 4.51)},
    ("lr", "dt_ms"),
)

caffe = Printed(
    "caffe",
    "src/caffe/solver.cpp and sgd_solver.cpp",
    lines(
        "I0501 10:00:00.123456  1234 caffe.cpp:218] Using GPUs 0",
        "I0501 10:00:00.123456  1234 solver.cpp:44] Initializing solver from parameters: ",
        "test_iter: 100",
        "test_interval: 500",
        "base_lr: 0.01",
        "display: 100",
        "max_iter: 2000",
        'lr_policy: "inv"',
        "I0501 10:00:01.123456  1234 net.cpp:58] Initializing net from parameters: ",
        "I0501 10:00:02.123456  1234 solver.cpp:279] Solving LeNet",
        *(
            (
                f"I0501 {clock(36003 + i)}.123456  1234 solver.cpp:337] Iteration {100 * i}, Testing net (#0)\n"
                f"I0501 {clock(36003 + i)}.223456  1234 solver.cpp:404]     Test net output #0: accuracy = 0.9{i:02d}\n"
                f"I0501 {clock(36003 + i)}.223457  1234 solver.cpp:404]     Test net output #1: loss = {falling(i) + 0.1:.6f} (* 1 = {falling(i) + 0.1:.6f} loss)\n"
                if i % 5 == 0
                else ""
            )
            + f"I0501 {clock(36003 + i)}.323456  1234 solver.cpp:228] Iteration {100 * i} ({20 + i % 3}.1 iter/s, 5.{i}s/100 iters), loss = {falling(i):.6f}\n"
            f"I0501 {clock(36003 + i)}.323457  1234 solver.cpp:244]     Train net output #0: loss = {falling(i):.6f} (* 1 = {falling(i):.6f} loss)\n"
            f"I0501 {clock(36003 + i)}.323458  1234 sgd_solver.cpp:106] Iteration {100 * i}, lr = 0.00{9999 - i}"
            for i in range(20)
        ),
        "I0501 10:03:00.123456  1234 solver.cpp:454] Snapshotting to binary proto file lenet_iter_2000.caffemodel",
        "I0501 10:03:00.123456  1234 sgd_solver.cpp:273] Snapshotting solver state to binary proto file lenet_iter_2000.solverstate",
        "I0501 10:03:01.123456  1234 solver.cpp:317] Iteration 2000, loss = 0.0123",
        "I0501 10:03:01.123456  1234 solver.cpp:337] Iteration 2000, Testing net (#0)",
        "I0501 10:03:01.223456  1234 solver.cpp:404]     Test net output #0: accuracy = 0.9912",
        "I0501 10:03:01.223457  1234 solver.cpp:404]     Test net output #1: loss = 0.0282 (* 1 = 0.0282 loss)",
        "I0501 10:03:01.223458  1234 solver.cpp:322] Optimization Done.",
        "I0501 10:03:01.223459  1234 caffe.cpp:254] Optimization Done.",
    ),
    21,
    (0, round(falling(0), 6)),
    (2000, 0.0123),
    {"val_loss": (5, 0.0282)},
    ("lr",),
    status="completed",
)

darknet = Printed(
    "darknet",
    "examples/detector.c of pjreddie/darknet; src/yolo_layer.c",
    lines(
        "yolov3-tiny",
        "layer     filters    size              input                output",
        "    0 conv     16  3 x 3 / 1   416 x 416 x   3   ->   416 x 416 x  16  0.150 BFLOPs",
        "    1 max          2 x 2 / 2   416 x 416 x  16   ->   208 x 208 x  16",
        "Learning Rate: 0.001, Momentum: 0.9, Decay: 0.0005",
        "Resizing",
        "576",
        "Loaded: 0.000036 seconds",
        *(
            f"Region 16 Avg IOU: 0.{300 + i}123, Class: 0.51{i % 10}, Obj: 0.41, No Obj: 0.45, .5R: 0.200000, .75R: 0.000000,  count: {5 + i % 4}\n"
            f"Region 23 Avg IOU: 0.{310 + i}456, Class: 0.52{i % 10}, Obj: 0.42, No Obj: 0.46, .5R: 0.100000, .75R: 0.000000,  count: {3 + i % 4}\n"
            f"{i}: {falling(i, 500, 1):.6f}, {falling(i, 510, 2):.6f} avg, 0.00{i % 9}000 rate, 3.{100 + i}123 seconds, {64 * i} images\n"
            f"Loaded: 0.0000{30 + i % 9} seconds"
            for i in range(1, 101)
        ),
        "Saving weights to backup//yolov3-tiny.backup",
    ),
    100,
    (1, round(falling(1, 500, 1), 6)),
    (100, round(falling(100, 500, 1), 6)),
    {},
    ("loss_avg", "lr"),
)

darknet_alexey = Printed(
    "darknet-alexey",
    "src/detector.c of AlexeyAB/darknet; src/yolo_layer.c",
    lines(
        " Learning Rate: 0.00261, Momentum: 0.9, Decay: 0.0005",
        *(
            f"v3 (iou loss, Normalizer: (iou: 0.07, obj: 1.00, cls: 1.00) Region 30 Avg (IOU: 0.3{i % 10}1), count: {5 + i % 4}, class_loss = {falling(i, 90, 1):.6f}, iou_loss = 1.2, total_loss = {falling(i, 95, 2):.6f} \n"
            f"v3 (iou loss, Normalizer: (iou: 0.07, obj: 1.00, cls: 1.00) Region 37 Avg (IOU: 0.3{i % 10}2), count: {5 + i % 4}, class_loss = {falling(i, 91, 1):.6f}, iou_loss = 1.1, total_loss = {falling(i, 96, 2):.6f} \n"
            f" total_bbox = {1000 + i}, rewritten_bbox = 0.1{i:02d} % \n\n"
            f" {i}: {falling(i, 500, 1):.6f}, {falling(i, 510, 2):.6f} avg loss, 0.00{i % 9}000 rate, 3.{100 + i}123 seconds, {64 * i} images, {100 - i / 10:.6f} hours left\n"
            f"Loaded: 0.0000{30 + i % 9} seconds"
            for i in range(1, 101)
        ),
    ),
    100,
    (1, round(falling(1, 500, 1), 6)),
    (100, round(falling(100, 500, 1), 6)),
    {},
    ("loss_avg", "lr"),
)

deit = Printed(
    "deit",
    "utils.py and engine.py of facebookresearch/deit: MetricLogger",
    lines(
        "| distributed init (rank 0): env://",
        "Namespace(batch_size=128, epochs=3, lr=0.0005, model='deit_small_patch16_224', warmup_lr=1e-06)",
        "number of params: 22050664",
        "Start training for 3 epochs",
        *(
            f"Epoch: [{epoch}]  [{100 * i:4d}/1251]  eta: 0:{12 - i:02d}:12  lr: 0.000001  loss: {falling(13 * epoch + i)} ({falling(13 * epoch + i) + 0.1:.4f})  time: 0.41{i:02d}  data: 0.000{i % 10}  max mem: 5432"
            + (
                f"\nEpoch: [{epoch}] Total time: 0:08:41 (0.4167 s / it)\nAveraged stats: lr: 0.000001  loss: 6.{900 - epoch} (6.9)\n"
                "Test:  [  0/261]  eta: 0:05:12  loss: 5.1 (5.1)  acc1: 10.0 (10.0)  acc5: 20.0 (20.0)  time: 1.1  data: 0.9  max mem: 5432\n"
                f"Test: Total time: 0:00:20 (0.0812 s / it)\n* Acc@1 {10 + epoch}.120 Acc@5 {30 + epoch}.220 loss 5.{100 - epoch}\n"
                f"Accuracy of the network on the 50000 test images: {10 + epoch}.1%\nMax accuracy: {10 + epoch}.12%"
                if i == 12
                else ""
            )
            for epoch in range(3)
            for i in range(13)
        ),
        "Training time 0:27:12",
    ),
    39,
    (0, falling(0)),
    (2 * 1251 + 1200, falling(38)),
    {"val_acc1": (3, 10.12)},
    ("lr", "loss_avg", "dt_ms"),
)

dinov2 = Printed(
    "dinov2",
    "dinov2/logging/helpers.py: MetricLogger",
    lines(
        "I20230501 10:00:00 1234 dinov2 config.py:60] git:",
        "  sha: abcdef, status: clean",
        "I20230501 10:00:01 1234 dinov2 train.py:100] Starting training from iteration 0",
        *(
            f"I20230501 {clock(36003 + i)} 1234 dinov2 helpers.py:102] Training  [{10 * i:6d}/125000]  eta: 1 day, 10:02:{i % 60:02d}  lr: 0.0000 (0.0000)  wd: 0.0400 (0.0400)  mom: 0.9940 (0.9940)  last_layer_lr: 0.0000 (0.0000)  "
            f"current_batch_size: 2048.0000 (2048.0000)  total_loss: {falling(i)} ({falling(i) + 0.1:.4f})  dino_local_crops_loss: 9.{i:02d} (9.1)  koleo_loss: -1.1 (-1.1)  time: 1.00{i:02d}  data: 0.1  max mem: 30211"
            for i in range(50)
        ),
    ),
    50,
    (0, falling(0)),
    (490, falling(49)),
    {},
    ("lr", "loss_avg", "dt_ms"),
)

diffusers = Printed(
    "diffusers",
    "examples/text_to_image/train_text_to_image_lora.py",
    "05/01/2024 10:00:00 - INFO - __main__ - ***** Running training *****\n05/01/2024 10:00:00 - INFO - __main__ -   Num examples = 833\n05/01/2024 10:00:00 - INFO - __main__ -   Total optimization steps = 200\n"
    + "\rSteps:   0%|          | 0/200 [00:00<?, ?it/s]"
    + "".join(
        f"\rSteps: {bar(i, 200)} [00:{i % 60:02d}<03:00,  1.1{i % 10}it/s, lr=0.0001, step_loss={falling(i, 0.3, 0.01)}]"
        * 2
        + (
            f"\n05/01/2024 10:02:00 - INFO - accelerate.accelerator - Saving current state to out/checkpoint-{i}\n05/01/2024 10:02:00 - INFO - __main__ - Saved state to out/checkpoint-{i}\n"
            if i % 100 == 0
            else ""
        )
        for i in range(1, 201)
    )
    + "\nModel weights saved in out/pytorch_lora_weights.safetensors\n",
    200,
    (1, falling(1, 0.3, 0.01)),
    (200, falling(200, 0.3, 0.01)),
    {},
    ("lr",),
    total=200,
    status="completed",
)

kohya = Printed(
    "kohya",
    "train_network.py of kohya-ss/sd-scripts",
    "running training / 学習開始\n  num train images * repeats / 学習画像の数×繰り返し回数: 400\n  num epochs / epoch数: 2\n  total optimization steps / 学習ステップ数: 200\nsteps:   0%|          | 0/200 [00:00<?, ?it/s]\nepoch 1/2\n"
    + "".join(
        f"\rsteps: {bar(i, 200)} [00:{i % 60:02d}<03:00,  1.1{i % 10}it/s, avr_loss={falling(i, 0.3, 0.01)}]"
        * 2
        + ("\nsaving checkpoint: /out/last-000001.safetensors\n\nepoch 2/2\n" if i == 100 else "")
        for i in range(1, 201)
    )
    + "\nsaving checkpoint: /out/last.safetensors\nmodel saved.\n",
    200,
    (1, None),
    (200, None),
    {},
    ("loss_avg",),
    total=200,
    status="completed",
)

stable_diffusion = Printed(
    "stable-diffusion",
    "CompVis latent diffusion under Lightning 1: its tqdm bar",
    "".join(
        f"\rEpoch {epoch}: {bar(i, 50)} [00:{i % 60:02d}<03:00,  1.1{i % 10}it/s, loss={falling(50 * epoch + i):.3g}, v_num=0, train/loss_simple_step=0.1{i:02d}, train/loss_step={falling(i):.3g}, global_step={50 * epoch + i}.0]"
        for epoch in range(3)
        for i in range(1, 51)
    )
    + "\n",
    3,
    (0, float(f"{falling(50):.3g}")),
    (2, float(f"{falling(150):.3g}")),
)

ignite = Printed(
    "ignite",
    "examples/mnist/mnist.py of pytorch/ignite",
    lines(
        *(
            "\n".join(
                [
                    *(
                        f"Epoch[{epoch}] Iteration[{10 * i}/100] Loss: {falling(10 * epoch + i):.2f}"
                        for i in range(1, 11)
                    ),
                    f"Training Results - Epoch: {epoch} Avg accuracy: 0.9{epoch} Avg loss: 0.3{epoch}",
                    f"Validation Results - Epoch: {epoch} Avg accuracy: 0.9{epoch} Avg loss: 0.2{9 - epoch}",
                ]
            )
            for epoch in range(1, 6)
        ),
    ),
    50,
    (10, round(falling(11), 2)),
    (500, round(falling(60), 2)),
    {"val_loss": (5, 0.24)},
)

catalyst = Printed(
    "catalyst",
    "catalyst/loggers/console.py",
    lines(
        *(
            f"train ({epoch}/20) accuracy01: 0.{500 + epoch} | loss: {falling(epoch)} | loss/mean: {falling(epoch)} | loss/std: 0.1 | lr: 0.001 | momentum: 0.9\n"
            f"valid ({epoch}/20) accuracy01: 0.{490 + epoch} | loss: {falling(epoch) + 0.1:.4f} | loss/mean: {falling(epoch) + 0.1:.4f} | loss/std: 0.1 | lr: 0.001 | momentum: 0.9\n"
            f"* Epoch ({epoch}/20) "
            for epoch in range(1, 21)
        ),
    ),
    20,
    (1, falling(1)),
    (20, falling(20)),
    {"val_loss": (20, min(round(falling(i) + 0.1, 4) for i in range(1, 21)))},
    total=20,
    status="completed",
)

fastai = Printed(
    "fastai",
    "fastai/learner.py: Recorder and fastprogress' ConsoleProgressBar",
    lines(
        "epoch     train_loss  valid_loss  error_rate  time    ",
        *(
            "".join(
                f"\rEpoch {i + 1}/10 : |{'█' * (at // 10)}{'-' * (10 - at // 10)}| {at}.00% [{at}/100 00:{at // 10:02d}<00:10 {falling(i):.4f}]"
                for at in range(0, 101, 10)
            )
            + f"\r{' ' * 60}\r{i:<10d}{falling(i):<12.6f}{falling(i) + 0.1:<12.6f}{0.1 + i / 1000:<12.6f}00:{10 + i % 3:02d}     "
            for i in range(10)
        ),
    ),
    10,
    (0, falling(0)),
    (9, falling(9)),
    {"val_loss": (10, min(round(falling(i) + 0.1, 6) for i in range(10)))},
)

gluoncv = Printed(
    "gluoncv",
    "scripts/classification/imagenet/train_imagenet.py of GluonCV",
    lines(
        "INFO:root:Namespace(batch_size=128, lr=0.4, model='resnet50_v1')",
        *(
            "\n".join(
                [
                    *(
                        f"INFO:root:Epoch[{epoch}] Batch [{50 * i - 1}]\tSpeed: {1200 + i}.123456 samples/sec\taccuracy=0.0{100 + 10 * epoch + i}\tlr=0.400000"
                        for i in range(1, 11)
                    ),
                    f"INFO:root:[Epoch {epoch}] training: accuracy=0.1{epoch}1",
                    f"INFO:root:[Epoch {epoch}] speed: 1210 samples/sec\ttime cost: 1012.312345",
                    f"INFO:root:[Epoch {epoch}] validation: err-top1=0.7{9 - epoch}1 err-top5=0.5{9 - epoch}1",
                ]
            )
            for epoch in range(5)
        ),
    ),
    50,
    (49, None),
    (499, None),
    {},
    ("lr", "accuracy"),
)

LOGS = (
    yolov5, yolov7, detectron2, mmpretrain, mmcv, paddleocr, paddleseg, paddleclas, caffe, darknet, darknet_alexey, deit, dinov2,
    diffusers, kohya, stable_diffusion, ignite, catalyst, fastai, gluoncv,
)  # fmt: skip
