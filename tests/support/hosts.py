"""Several hosts on one machine: network namespaces with names of their own, joined by a bridge."""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

PROGRAMS = ("ip", "unshare", "hostname")
SUBNET = "10.77.0.0/24"

# What mpirun calls in place of ssh: the host's name, then words for its shell.
AGENT = """#!/bin/sh
host=$1
shift
exec ip netns exec "{prefix}-$host" unshare --uts sh -c "hostname $host; $*"
"""


def path_of(program):
    return shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin")


def why_not():
    """What this machine lacks or refuses for such hosts; empty: nothing."""
    missing = [program for program in PROGRAMS if path_of(program) is None]
    if missing:
        return f"there is no {', '.join(missing)}"
    if os.geteuid() != 0:
        return "network namespaces need root"
    probe = f"dynpipe-{os.getpid()}-probe"
    try:
        ip("netns", "add", probe)
        ip("link", "add", "bridge0", "type", "bridge", inside=probe)
    except AssertionError as refusal:
        return str(refusal)
    finally:
        subprocess.run([path_of("ip"), "netns", "delete", probe], capture_output=True, check=False)
    return ""


def ip(*words, inside=None):
    """Runs `ip` within a namespace, or outside of any, and returns what it prints."""
    command = [path_of("ip"), *(("-n", inside) if inside else ()), *words]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise AssertionError(f"{' '.join(command[1:])}: {run.stderr.strip()}")
    return run.stdout


class Hosts:
    """Hosts h1, h2, ..., there within `with`. The bridge is in one more namespace, `head`, where
    mpirun runs: outside of them nothing changes, and when they go, all goes."""

    def __init__(self, count):
        self.names = [f"h{i + 1}" for i in range(count)]
        self.prefix = f"dynpipe-{os.getpid()}"  # several tests may run at once
        self.namespaces = []

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="hosts-"))
        try:
            self.build()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_):
        self.remove()

    def build(self):
        self.agent = self.folder / "agent"
        self.agent.write_text(AGENT.format(prefix=self.prefix))
        self.agent.chmod(0o755)
        for name in ("head", *self.names):
            self.namespaces.append(f"{self.prefix}-{name}")
            ip("netns", "add", self.namespaces[-1])
            ip("link", "set", "lo", "up", inside=self.namespaces[-1])
        head, *hosts = self.namespaces
        ip("link", "add", "bridge0", "type", "bridge", inside=head)
        ip("address", "add", "10.77.0.254/24", "dev", "bridge0", inside=head)
        ip("link", "set", "bridge0", "up", inside=head)
        for i, host in enumerate(hosts, start=1):
            ip("link", "add", f"to{i}", "type", "veth", "peer", "name", "eth0", "netns", host,
               inside=head)
            ip("link", "set", f"to{i}", "master", "bridge0", "up", inside=head)
            ip("address", "add", f"10.77.0.{i}/24", "dev", "eth0", inside=host)
            ip("link", "set", "eth0", "up", inside=host)

    def mpirun(self, slots=1):
        """The words that start so many ranks on each host by Open MPI, over TCP."""
        launcher = path_of(os.environ.get("MPIRUN", "mpirun"))
        return [path_of("ip"), "netns", "exec", self.namespaces[0], launcher,
                "--mca", "plm_rsh_agent", self.agent, "--mca", "oob_tcp_if_include", SUBNET,
                "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", SUBNET,
                "-H", ",".join(f"{name}:{slots}" for name in self.names),
                "-n", str(slots * len(self.names))]

    def remove(self):
        for namespace in self.namespaces:
            try:
                for process in ip("netns", "pids", namespace).split():
                    os.kill(int(process), signal.SIGKILL)
            except (AssertionError, ProcessLookupError):
                pass  # it was not made, or is ending by itself
            subprocess.run([path_of("ip"), "netns", "delete", namespace], capture_output=True,
                           check=False)
        self.namespaces.clear()
        shutil.rmtree(self.folder, ignore_errors=True)
