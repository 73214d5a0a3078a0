#!/bin/sh
# nfs_server.sh FOLDER COMMAND...: serves FOLDER/files by nfs-ganesha, NFS version 3, and runs the command until it ends.
# Run in namespaces of its own for network, mounts and processes: the portmapper's port and socket are then nobody else's.
set -eu
folder=$1
shift
mkdir -p "$folder/files" "$folder/recovery"
mount -t tmpfs -o mode=755 none /run
mkdir -p /run/rpcbind
chown _rpc /run/rpcbind 2>/dev/null || true
ip link set lo up
cat >"$folder/config" <<END
NFS_CORE_PARAM { NFS_Port = 2049; MNT_Port = 20048; Protocols = 3; Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; }
NFSV4 { RecoveryBackend = fs; RecoveryRoot = $folder/recovery; }
EXPORT { Export_Id = 1; Path = $folder/files; Access_Type = RW; Squash = No_Root_Squash; SecType = sys; FSAL { Name = VFS; } }
END
rpcbind -f >&2 &
until rpcinfo -p 127.0.0.1 >/dev/null 2>&1; do sleep 0.1; done
ganesha.nfsd -F -f "$folder/config" -L "$folder/log" -p "$folder/pid" -N NIV_MAJ >&2 &
server=$!
until rpcinfo -t 127.0.0.1 nfs 3 >/dev/null 2>&1; do
    kill -0 $server 2>/dev/null || { echo "error: ganesha.nfsd does not start: $(tail -n 1 "$folder/log")" >&2; exit 1; }
    sleep 0.1
done
"$@"
