"""What models have started ends with a server that is killed: the shell that ends it, and which processes it knows."""

import os
import subprocess
import sys

import pytest

from naiad.hosts.process import spawn
from tests.server.hosts.process.workers import exists, open_descriptors
from tests.support.waiting import wait_until

_SERVER = """
import subprocess, sys
from naiad.hosts.process.spawn import OrphanReaper
of_this_server = OrphanReaper()
groups = [subprocess.Popen(["sleep", "60"], process_group=0) for _ in range(4)]
for each in groups:
    of_this_server.add(each.pid)
of_this_server.remove(groups[1].pid)
of_this_server.remove(groups[1].pid)
of_this_server.remove(groups[3].pid)
print(*[each.pid for each in groups], flush=True)
sys.stdin.read()
"""


def test_what_a_killed_server_leaves_is_ended_and_what_was_over_before_is_not_touched() -> None:
    bystander = subprocess.Popen(["sleep", "60"], process_group=0)
    server = subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "groups": str(bystander.pid)},
        text=True,
    )
    assert server.stdout is not None
    assert server.stdin is not None
    groups = [int(each) for each in server.stdout.readline().split()]
    try:
        assert all(map(exists, groups))
        server.kill()
        server.wait()
        wait_until(lambda: [exists(group) for group in groups] == [False, True, False, True])
        assert bystander.poll() is None
    finally:
        server.stdin.close()
        server.stdout.close()
        for group in groups[1::2]:
            os.kill(group, 9)
        bystander.kill()
        bystander.wait()


def test_without_a_shell_there_is_nothing_but_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spawn, "_SHELL", "/nowhere/sh")
    before = open_descriptors()
    alone = spawn.OrphanReaper()
    alone.add(1 << 22)
    alone.remove(1 << 22)
    assert open_descriptors() <= before
