"""A Slurm of two nodes on this machine, without systemd: `with cluster() as environment`, then srun and sbatch."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.ports import free_port
from tests.recordings import until

SETTINGS = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
KillWait=60
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={first} CPUs=2
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={second} CPUs=2
PartitionName=low Nodes=n1,n2 Default=YES PriorityTier=1 GraceTime=60
PartitionName=high Nodes=n1,n2 PriorityTier=10
"""


@contextlib.contextmanager
def cluster() -> Iterator[dict[str, str]]:
    """The environment in which Slurm's programs find the cluster; root alone can start one."""
    # munged refuses a folder that only root enters, as pytest's
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    folder.chmod(0o755)
    (folder / "state").mkdir()
    (folder / "spool").mkdir()
    controller, first, second = (free_port() for _ in range(3))
    settings = folder / "slurm.conf"
    host = socket.gethostname().partition(".")[0]
    settings.write_text(
        SETTINGS.format(folder=folder, host=host, controller=controller, first=first, second=second)
    )
    environment = {**os.environ, "SLURM_CONF": str(settings)}
    programs = []
    try:
        programs.append(_munged(folder / "munge"))
        for arguments in (
            ["slurmctld", "-D", "-c"],
            *(["slurmd", "-D", "-N", node] for node in ("n1", "n2")),
        ):
            programs.append(subprocess.Popen(arguments, env=environment, stderr=subprocess.DEVNULL))
        _wait_for_nodes(environment, folder)
        yield environment
    finally:
        for program in reversed(programs):
            program.terminate()
        for program in programs:
            program.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _munged(folder: Path) -> subprocess.Popen[bytes]:
    """Starts the service that vouches for users; it refuses to run as root."""
    folder.mkdir()
    (folder / "key").write_bytes(os.urandom(1024))
    (folder / "key").chmod(0o400)
    for path in (folder, folder / "key"):
        shutil.chown(path, "nobody", "nogroup")
    paths = [f"--{name}-file={folder / name}" for name in ("key", "pid", "log", "seed")]
    become = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
    command = [*become, "munged", "--foreground", f"--socket={folder / 'socket'}", *paths]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)


def _wait_for_nodes(environment: dict[str, str], folder: Path) -> None:
    command = ["sinfo", "-h", "-p", "low", "-o", "%D %t"]

    def ready() -> bool:
        answer = subprocess.run(command, env=environment, capture_output=True, text=True)
        return answer.stdout.split() == ["2", "idle"]

    until(ready, (folder / "slurmctld.log").read_text, pause_s=0.2)
