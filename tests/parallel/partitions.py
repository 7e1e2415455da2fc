#!/usr/bin/env python3
"""Trains under mpirun on two machines that are network namespaces of this one, delays, loses and cuts what goes between
them, and sees that each training ends in time, says why, and goes on to the bits of the one that nobody disturbed.

    tests/parallel/partitions.py build/tools/tern --seed 1

The cable is this script: a TUN device in each namespace, and packets that are handed from one to the other. It wants to
be root, and ends with a sentence where the kernel or the container permits no namespaces. mpirun itself waits for a
machine behind a cut until TCP gives that up, by Linux's default after a quarter of an hour; the namespaces have
net.ipv4.tcp_retries2 of 3, but for the trainings under --restarts, which end mpirun themselves.
"""

import argparse
import ctypes
import fcntl
import heapq
import os
import pathlib
import random
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

import kills

NETWORK = 0x40000000  # CLONE_NEWNET
SET_DEVICE, PACKETS = 0x400454CA, 0x1001  # TUNSETIFF; IFF_TUN | IFF_NO_PI
ADDRESSES = ["10.77.0.1", "10.77.0.2"]
CAUSE = re.compile(r"tern: .*(did not|not end|lost|gone|failed)|lost communication|mpirun detected")


class NotPermitted(Exception):
    pass


class Machine:
    """A network namespace with a name of its own and one network device, whose other end is `wire`."""

    def __init__(self, name, address):
        self.address = address
        own = os.open("/proc/self/ns/net", os.O_RDONLY)
        self.holder = subprocess.Popen(["unshare", "--net", "--uts", "sh", "-c",
                                        f"hostname {name} && ip link set lo up && echo up && exec sleep infinity"],
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            said = self.holder.stdout.readline()
            if said != b"up\n":
                raise NotPermitted(said.decode().strip() or "unshare says nothing")
            there = os.open(f"/proc/{self.holder.pid}/ns/net", os.O_RDONLY)
            self.move_to(there)
            try:
                self.wire = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
                fcntl.ioctl(self.wire, SET_DEVICE, struct.pack("16sH22x", b"wire", PACKETS))
            finally:
                self.move_to(own)
            self.run("ip", "address", "add", address + "/24", "dev", "wire")
            self.run("ip", "link", "set", "wire", "up")
        except (OSError, subprocess.CalledProcessError, NotPermitted) as error:
            self.holder.kill()
            raise NotPermitted(str(error)) from error

    @staticmethod
    def move_to(namespace):
        library = ctypes.CDLL(None, use_errno=True)
        if library.setns(namespace, NETWORK) != 0:
            raise OSError(ctypes.get_errno(), "setns")

    def enter(self):
        return ["nsenter", "--net", "--uts", "--target", str(self.holder.pid)]

    def run(self, *words):
        subprocess.run(self.enter() + list(words), check=True, stdout=subprocess.DEVNULL)


class Cable:
    """Carries packets between two machines, each after `delay` seconds, but for a share that is lost at random and the
    directions that are cut."""

    def __init__(self, machines, seed):
        self.ends = [machine.wire for machine in machines]
        self.draw = random.Random(seed)
        self.heal()
        threading.Thread(target=self.carry, daemon=True).start()

    def heal(self):
        self.delay, self.loss, self.cut = 0.0, 0.0, set()

    def carry(self):
        under_way, number = [], 0
        while True:
            wait = max(0.0, under_way[0][0] - time.monotonic()) if under_way else None
            for end in select.select(self.ends, [], [], wait)[0]:
                packet, side = os.read(end, 65536), self.ends.index(end)
                if side not in self.cut and self.draw.random() >= self.loss:
                    number += 1
                    heapq.heappush(under_way, (time.monotonic() + self.delay, number, 1 - side, packet))
            while under_way and under_way[0][0] <= time.monotonic():
                _, _, side, packet = heapq.heappop(under_way)
                try:
                    os.write(self.ends[side], packet)
                except OSError:
                    pass  # its queue is full: lost as well


class Partitions:
    def __init__(self, options, folder, machines, cable):
        self.options, self.folder, self.cable, self.machines = options, folder, cable, machines
        self.failures, self.number = [], 0
        self.environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        agent = folder / "enter"  # what mpirun takes for ssh
        agent.write_text(f"#!/bin/sh\nshift\nexec {' '.join(machines[1].enter())} sh -c \"$*\"\n")
        agent.chmod(0o755)
        self.launcher = machines[0].enter() + [
            options.mpirun, "--host", ",".join(f"{address}:2" for address in ADDRESSES), "--map-by", "node",
            "--bind-to", "none", "--mca", "plm_rsh_agent", str(agent), "--mca", "btl", "self,vader,tcp",
            "--mca", "btl_tcp_if_include", "wire", "--mca", "oob_tcp_if_include", "wire"]

    def words(self, run, ranks, more=()):
        return self.launcher + ["-n", str(ranks), self.options.tern] + kills.training(run, self.options) + list(more)

    def start(self, words):
        return subprocess.Popen(words, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, errors="replace")

    def model(self, run):
        return (self.folder / run / "model.safetensors").read_bytes()

    def patience(self, patient):
        """Whether TCP gives up after a quarter of an hour or after some seconds."""
        for machine in self.machines:
            machine.run("sysctl", "-qw", f"net.ipv4.tcp_retries2={15 if patient else 3}")

    def await_epoch(self, process, run, epochs):
        file = self.folder / run / "metrics.jsonl"
        while process.poll() is None:
            if epochs == 0 or (file.exists() and file.read_text().count('"event":"epoch"') >= epochs):
                return
            time.sleep(0.005)

    def ended(self, process, seconds):
        try:
            return process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            self.clear()
            return None

    def clear(self):
        """Ends what is left, such as mpirun's daemon behind the cut."""
        for pid in kills.processes_of(self.folder):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def try_out(self, label, reference, ranks=2, delay=0.0, loss=0.0, cut=None, after=0, seconds=None, restarts=False):
        """One training: `cut` are the ends whose packets go nowhere, `after` so many epochs, for so many `seconds`
        (None: until it has ended)."""
        if self.options.only not in (None, label):
            return
        self.number += 1
        run = f"r{self.number}"
        self.cable.heal()
        self.cable.delay, self.cable.loss = delay, loss
        self.patience(restarts)
        if restarts:
            words = [self.options.tern] + kills.training(run, self.options) + [
                "--restarts", "3", "--launcher", " ".join(self.launcher + ["-n", str(ranks)])]
        else:
            words = self.words(run, ranks)
        began = struck = time.monotonic()
        process = self.start(words)
        if cut is not None:
            self.await_epoch(process, run, after)
            time.sleep(0.15 if after == 0 else 0.02)
            struck = time.monotonic()
            self.cable.cut = cut
            if seconds is not None:
                time.sleep(seconds)
                self.cable.heal()
        text = self.ended(process, 120 if restarts or cut is None else 10 * self.options.limit)
        took = time.monotonic() - struck
        disturbed = text is not None and process.returncode != 0
        lasting = cut is not None and seconds is None
        problem = None
        if text is None:
            problem = "no end"
        elif lasting and not disturbed:
            problem = "it ended well in spite of the cut"
        elif disturbed and (not lasting or restarts):
            problem = f"exit code {process.returncode}"
        elif (lasting or restarts) and not CAUSE.search(text):
            problem = "nobody says why"
        elif restarts and "their launcher ran on" not in text:
            problem = "nobody ended the mpirun that waits for a machine behind a cut"
        self.cable.heal()
        self.clear()
        if problem is None and disturbed:
            more = ["--resume"] if (self.folder / run / "metrics.jsonl").exists() else []
            process = self.start(self.words(run, ranks, more))
            again = self.ended(process, 120)
            if process.returncode != 0:
                problem, text = "it did not go on", again
        if problem is None and self.model(run) != reference:
            problem = "other bits than the undisturbed training"
        if problem is not None:
            self.failures.append(label)
            print(f"{label}: {problem}\n{text}", flush=True)
            return
        said = next((line for line in text.splitlines() if CAUSE.search(line)), "")
        end = f"ended {took:.1f} s after the cut, went on" if lasting else f"{time.monotonic() - began:.1f} s"
        print(f"{label}: {end}; the same bits{'; ' if said else ''}{said.strip()}", flush=True)

    def all(self):
        process = self.start(self.words("whole", 2))
        text = self.ended(process, 120)
        if process.returncode != 0:
            sys.exit(f"the undisturbed training failed:\n{text}")
        reference, epochs = self.model("whole"), self.options.epochs
        self.try_out("2 + 2 ranks", reference, ranks=4)
        self.try_out("5 ms more each way", reference, delay=0.005)
        self.try_out("1 % lost", reference, loss=0.01)
        self.try_out("5 ms more and 1 % lost, 2 + 2 ranks", reference, ranks=4, delay=0.005, loss=0.01)
        self.try_out("cut for 1.5 s while training", reference, cut={0, 1}, after=epochs // 3, seconds=1.5)
        self.try_out("cut at the start", reference, cut={0, 1})
        self.try_out("cut while training", reference, cut={0, 1}, after=epochs // 2)
        self.try_out("cut while training, 2 + 2 ranks", reference, ranks=4, cut={0, 1}, after=epochs // 3)
        self.try_out("cut one way, from the first machine", reference, cut={0}, after=epochs // 2)
        self.try_out("cut one way, to the first machine", reference, cut={1}, after=epochs // 2)
        self.try_out("cut for three limits, under --restarts", reference, cut={0, 1}, after=epochs // 2,
                     seconds=3 * self.options.limit, restarts=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tern")
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--mode", default="vectorized")
    parser.add_argument("--only", metavar="LABEL", help="this training alone")
    parser.add_argument("--limit", type=int, default=5, help="seconds that a rank waits for another one")
    options = parser.parse_args()
    options.tern = str(pathlib.Path(options.tern).resolve())
    missing = [tool for tool in ("unshare", "nsenter", "ip", "sysctl", options.mpirun) if shutil.which(tool) is None]
    machines = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        try:
            if missing:
                raise NotPermitted(f"{', '.join(missing)}: not found")
            machines += [Machine(f"tern-{i}", address) for i, address in enumerate(ADDRESSES)]
        except NotPermitted as error:
            print(f"skipped: no two network namespaces with a cable between them here: {error}")
            return 0
        partitions = Partitions(options, folder, machines, Cable(machines, options.seed))
        kills.points(folder)
        try:
            partitions.all()
        finally:
            partitions.clear()
            for machine in machines:
                machine.holder.kill()
    print(f"{len(partitions.failures)} of {partitions.number} failed")
    return 1 if partitions.failures else 0


if __name__ == "__main__":
    sys.exit(main())
