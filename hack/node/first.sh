#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The first process of the namespaces that keeper.py makes. It mounts the root and what belongs into it, and then waits and
# reaps. Variables: FOLDER of the running node, ROOT (a Debian root folder), NETWORK (own or host), WRITABLE (yes: ROOT
# itself is changed), BINDS (folders that are seen at the same path), CGROUPS (mount point and options of each hierarchy).
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
# In the machine's /proc, this process has the machine's number for it.
cd -P /proc/self
pid=${PWD##*/}
cd /

new=$FOLDER/root
mkdir -p "$new"
if [ "$WRITABLE" = yes ]; then
    mount --bind "$ROOT" "$new"
else
    mkdir -p "$FOLDER/upper" "$FOLDER/work"
    mount -t overlay overlay -o "lowerdir=$ROOT,upperdir=$FOLDER/upper,workdir=$FOLDER/work" "$new"
fi
mkdir -p "$new/proc" "$new/sys" "$new/dev" "$new/run" "$new/tmp"
mount -t proc proc "$new/proc"
if [ "$NETWORK" = own ]; then mount -t sysfs sysfs "$new/sys"; else mount --bind /sys "$new/sys"; fi
mount --rbind /dev "$new/dev"
mount -t tmpfs -o mode=755 run "$new/run"
mount -t tmpfs -o mode=1777 tmp "$new/tmp"

while read -r point options; do
    if [ "$options" = - ]; then
        # This process moves out of the group that is the root here, so that groups below may have controllers.
        mount -t cgroup2 cgroup2 "$new/sys/fs/cgroup"
        echo 0 >"$new/sys/fs/cgroup/node/cgroup.procs"
        continue
    fi
    mountpoint -q "$new/sys/fs/cgroup" || mount -t tmpfs -o mode=755 cgroup "$new/sys/fs/cgroup"
    mkdir -p "$new/sys/fs/cgroup/${point##*/}"
    mount -t cgroup -o "$options" cgroup "$new/sys/fs/cgroup/${point##*/}"
    for controller in ${options//,/ }; do
        case $controller in none | name=* | "${point##*/}") ;; *) ln -s "${point##*/}" "$new/sys/fs/cgroup/$controller" ;; esac
    done
done <<<"$CGROUPS"

for bind in $BINDS "$FOLDER"; do
    mkdir -p "$new$bind"
    mount --bind "$bind" "$new$bind"
done

if [ "$NETWORK" = own ]; then
    # kubelet opens sockets below its folder, and the path of a socket has 107 characters at most (unix(7)).
    mkdir -p "$FOLDER/kubelet" "$new/var/lib/kubelet"
    mount --bind "$FOLDER/kubelet" "$new/var/lib/kubelet"
    # kubelet would set these for the whole machine. It reads here that they are as it wants them.
    for setting in vm/overcommit_memory=1 kernel/panic=10 kernel/panic_on_oops=1; do
        file=$FOLDER/$(basename "${setting%=*}")
        echo "${setting#*=}" >"$file"
        mount --bind "$file" "$new/proc/sys/${setting%=*}"
    done
    hostname node-1
    ip link set lo up
    # The node's address is on a bridge without ports: nothing outside can be reached.
    ip link add node0 type bridge
    ip addr add 10.200.0.1/24 dev node0
    ip link set node0 up
    ip route add default dev node0
    echo 1 >/proc/sys/net/ipv4/ip_forward
    printf '127.0.0.1 localhost\n10.200.0.1 node-1\n' >"$FOLDER/hosts"
    echo 'nameserver 10.200.0.1' >"$FOLDER/resolv.conf"
else
    cat /etc/hosts >"$FOLDER/hosts"
    cat /etc/resolv.conf >"$FOLDER/resolv.conf"
fi
for name in hosts resolv.conf; do
    [ "$WRITABLE" = yes ] || rm -f "$new/etc/$name"
    touch "$new/etc/$name"
    mount --bind "$FOLDER/$name" "$new/etc/$name"
done

cd "$new"
mkdir -p .before
pivot_root . .before
umount -l /.before
rmdir /.before
mount --make-rshared /
cd /
echo "$pid" >"$FOLDER/pid.new"
mv "$FOLDER/pid.new" "$FOLDER/pid"
exec </dev/null
trap 'exit 0' TERM
# Bash reaps what is left to the first process.
while :; do
    sleep 3600 &
    wait $! || true
done
