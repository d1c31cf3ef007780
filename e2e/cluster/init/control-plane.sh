#!/bin/bash
# The first process of the control plane's namespaces: sets them up, then waits; when it is killed, the kernel ends everything in them.
#   control-plane.sh READY_FILE ADDRESS
set -e
hostname control-plane
mount -n -t tmpfs tmpfs /run   # -n: or mount would write /run/mount on the machine
mkdir -p /run/netns /run/lock
ip link set lo up
ip link add br0 type bridge
ip address add "$2/24" dev br0
ip link set br0 up
sysctl -qw net.ipv4.ip_forward=1
touch "$1"
trap : TERM INT CHLD
while :; do sleep 3600 & wait $!; done
