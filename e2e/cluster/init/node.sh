#!/bin/bash
# The first process of a node's namespaces: sets them up so that the node sees only itself, then waits.
#   node.sh NAME FOLDER READY_FILE MEMORY_KB NODEFS_MIB
set -e
name=$1 folder=$2 ready=$3 memory=$4 nodefs=$5
hostname "$name"

# Folders that the kubelet, containerd and CNI plugins write to, whose paths are compiled in.
mount -n -t tmpfs tmpfs /run
mkdir -p /run/netns /run/lock /run/containerd /run/own
mount -t tmpfs tmpfs /opt
keep=/run/own/folder                       # the cluster's folder may lie under /var
mkdir -p $keep && mount --bind "$folder/.." $keep
mount -t tmpfs tmpfs /var
mkdir -p "$folder/.." && mount --rbind $keep "$folder/.."
mkdir -p /var/lib/kubelet /var/lib/cni /var/log/pods /var/log/containers /var/tmp /var/cache
ln -s /run /var/run
if [ "$nodefs" = 0 ]; then
  mkdir -p "$folder/kubelet"
  mount --bind "$folder/kubelet" /var/lib/kubelet
else
  mount -t tmpfs -o "size=${nodefs}m" nodefs /var/lib/kubelet
fi
mount --make-rshared /var/lib/kubelet

# The kubelet writes these settings, which belong to the whole machine: it gets files of the node's own.
for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
  kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
  file=/run/own/sysctl/${setting%=*}
  mkdir -p "${file%/*}"
  echo "${setting#*=}" > "$file"
  mount --bind "$file" "/proc/sys/${setting%=*}"
done

# Its own network devices in /sys, and its own cgroups as the roots of all hierarchies; version 2 has a single one.
cgroups=$(stat -fc %T /sys/fs/cgroup)
mount -t sysfs sysfs /sys
if [ "$cgroups" = cgroup2fs ]; then
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
else
  mount -t tmpfs tmpfs /sys/fs/cgroup
  for hierarchy in $(awk '$3 == "cgroup" {print $2}' /proc/mounts); do
    controller=${hierarchy##*/}
    case $controller in
      systemd) options=none,name=systemd ;;
      *) options=$controller ;;
    esac
    mkdir -p "/sys/fs/cgroup/$controller"
    mount -t cgroup -o "$options" cgroup "/sys/fs/cgroup/$controller"
  done
fi

# Its own identity and memory; the kernel's log is everybody's, and would bring old out-of-memory kills to every node.
echo -n "$name" | md5sum | cut -c1-32 > /run/own/machine-id
[ -e /etc/machine-id ] && mount --bind /run/own/machine-id /etc/machine-id
cat /proc/sys/kernel/random/uuid > /run/own/boot_id
mount --bind /run/own/boot_id /proc/sys/kernel/random/boot_id
sed "s/^MemTotal:.*/MemTotal:  $memory kB/" /proc/meminfo > /run/own/meminfo
mount --bind /run/own/meminfo /proc/meminfo
mount --bind /dev/null /dev/kmsg

# Modules in Debian's kernels. Nothing else loads the first; kube-proxy ends without the second, which is loaded with the first rule of a kubelet.
[ -e /proc/sys/net/bridge ] || modprobe br_netfilter
[ -e /proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established ] || modprobe nf_conntrack
ip link set lo up
sysctl -qw net.ipv4.ip_forward=1 net.bridge.bridge-nf-call-iptables=1 net.ipv4.conf.all.route_localnet=1
touch "$ready"
trap : TERM INT CHLD
while :; do sleep 3600 & wait $!; done
