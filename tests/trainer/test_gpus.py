"""The table of GPUs: names of drivers and of people."""

import pytest

from gputel.trainer.gpus import find_gpu, gpus


@pytest.mark.parametrize(
    ("driver", "name", "peak"),
    [
        ("NVIDIA H100 80GB HBM3", "H100", 989e12),
        ("NVIDIA H100 PCIe", "H100-PCIe", 756e12),
        ("NVIDIA H100 NVL", "H100-NVL", 835e12),
        ("NVIDIA H200", "H200", 989e12),
        ("NVIDIA A100-SXM4-80GB", "A100", 312e12),
        ("NVIDIA A100-SXM4-40GB", "A100-40GB", 312e12),
        ("NVIDIA A100-PCIE-40GB", "A100-PCIe-40GB", 312e12),
        ("Tesla V100-SXM2-16GB", "V100-16GB", None),
        ("NVIDIA GB10", "GB10", 125e12),
        ("NVIDIA L40S", "L40S", 362e12),
        ("NVIDIA L4", "L4", 121e12),
        ("NVIDIA GeForce RTX 4090", "RTX-4090", 165.2e12),
        ("h100", "H100", 989e12),
        ("h100-pcie", "H100-PCIe", 756e12),
    ],
)
def test_gpu_is_found_by_the_name_of_its_driver(driver: str, name: str, peak: float | None) -> None:
    gpu = find_gpu(driver)
    assert gpu
    assert (gpu.name, gpu.peak_flops) == (name, peak)


def test_slice_of_a_gpu_and_a_stranger_are_unknown() -> None:
    assert find_gpu("NVIDIA H100 80GB HBM3 MIG 1g.10gb") is None
    assert find_gpu("NVIDIA Quux 9000") is None


def test_every_name_in_the_table_finds_its_own_row() -> None:
    for gpu in gpus():
        assert [find_gpu(name) for name in gpu.names] == [gpu] * len(gpu.names)
