"""A Slurm of one node on the loopback device, in a folder of its own, for as long as a test runs."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

PROGRAMS = ("setpriv", "munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol")
NODE_CPUS = 2
DEADLINE_S = 30

# The daemons run as root, without control groups, without accounting, and listen on loopback only.
# The node may claim more than this machine has: the test is of a job script, not of Slurm.
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmdParameters=config_overrides
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
TmpFS={folder}/tmp
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=1,sched_min_interval=500000
ReturnToService=2
KillWait=5
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={node_port} CPUs={cpus}
PartitionName=main Nodes=n1 Default=YES MaxTime=INFINITE State=UP
"""


def why_not():
    """What this machine lacks for a cluster; empty: nothing."""
    missing = [program for program in PROGRAMS if find(program) is None]
    if missing:
        return f"there is no {', '.join(missing)}"
    if os.geteuid() != 0:
        return "Slurm's daemons need root"
    try:
        address = socket.gethostbyname(socket.gethostname())
    except OSError:
        address = "unknown"
    # Slurm's daemons listen on the address of the host's name, and these must not be reachable.
    return "" if address.startswith("127.") else f"the address of this host's name is {address}"


def find(program):
    return shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin")


def free_ports(count):
    """Ports that nobody listened on a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Cluster:
    """Started by `with`; ended, with all that its jobs left behind, whatever happens within."""

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="slurm-"))
        self.folder.chmod(0o755)  # munged wants its socket to be reachable
        self.environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}
        self.daemons = []
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        for name in ("state", "spool", "tmp"):
            (self.folder / name).mkdir()
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(1024))
        controller_port, node_port = free_ports(2)
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(
            host=socket.gethostname(), folder=self.folder, cpus=NODE_CPUS,
            controller_port=controller_port, node_port=node_port))

        files = [f"--{name}-file={self.folder}/munge.{name}"
                 for name in ("key", "pid", "seed", "log")]
        self.run_daemon("munged", "--foreground", f"--socket={self.folder}/munge.sock", *files)
        self.wait_for((self.folder / "munge.sock").exists, "munged's socket")
        self.run_daemon("slurmctld", "-D", "-c")
        self.run_daemon("slurmd", "-D", "-N", "n1")
        show_node = ("scontrol", "show", "node", "n1")
        self.wait_for(lambda: "State=IDLE" in self.call(*show_node, check=False), "an idle node")

    def run_daemon(self, program, *options):
        with open(self.folder / f"{program}.out", "wb") as output:
            # Should this process be killed, they get SIGTERM.
            self.daemons.append(subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", find(program), *options],
                env=self.environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True))

    def wait_for(self, condition, what, deadline_s=DEADLINE_S):
        begun = time.monotonic()
        while not condition():
            ended = [daemon.args[3] for daemon in self.daemons if daemon.poll() is not None]
            if ended or time.monotonic() - begun > deadline_s:
                raise AssertionError(f"waited for {what}; ended: {ended}\n{self.logs()}")
            time.sleep(0.2)

    def logs(self):
        """The ends of what the daemons said."""
        paths = sorted([*self.folder.glob("*.log"), *self.folder.glob("*.out")])
        return "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')[-3000:]}"
                         for path in paths)

    def call(self, *command, check=True, **environment):
        """Standard output of one of Slurm's commands."""
        run = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                             env={**self.environment, **environment}, timeout=DEADLINE_S)
        if check and run.returncode != 0:
            raise AssertionError(f"{command}: exit code {run.returncode}\n{run.stdout}{run.stderr}")
        return run.stdout

    def job(self, number):
        """What Slurm says about a job, by field."""
        words = self.call("scontrol", "--oneliner", "show", "job", number).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def finished(self, number, deadline_s):
        """The same, once the job has ended."""
        running = ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING")
        self.wait_for(lambda: self.job(number)["JobState"] not in running, f"job {number}",
                      deadline_s)
        return self.job(number)

    def stop(self):
        for daemon in reversed(self.daemons):  # nodes before the controller before munged
            if daemon.poll() is None:
                daemon.terminate()
        begun = time.monotonic()
        while time.monotonic() - begun < 10:
            if all(daemon.poll() is not None for daemon in self.daemons):
                break
            time.sleep(0.1)
        for process in self.processes():
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for daemon in self.daemons:
            daemon.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def processes(self):
        """Numbers of all processes that descend from the daemons or their jobs: steps outlive them."""
        mark = f"SLURM_CONF={self.folder}/slurm.conf\0".encode()
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
            try:
                if mark in path.read_bytes():
                    found.append(int(path.parent.name))
            except OSError:  # it has just ended
                pass
        return found
