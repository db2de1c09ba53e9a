#!/usr/bin/env bash
# A Slurm cluster of one node on the loopback address, for whoever runs this: no systemd, no accounting, no cgroups.
#
#   eval "$(tests/cluster/slurm.sh start FOLDER)"     everything it writes goes there; this shell then finds it
#   tests/cluster/slurm.sh stop FOLDER                cancels what runs, ends the daemons, leaves the folder
#
# Needs munge, slurmctld, slurmd and slurm-client (Debian's names). FOLDER/jobs has a line for each job that ended.
set -euo pipefail
export PATH="$PATH:/usr/sbin:/sbin"

start() {
    mkdir -p "$folder"/{bin,state,spool}
    chmod 755 "$folder"
    (umask 077 && head -c 1024 /dev/urandom > "$folder/munge.key")
    read -r controller_port node_port < <(free_ports)
    local node processors memory
    node=$(hostname -s)
    processors=$(nproc)
    memory=$(awk '/MemTotal/ { print int($2 / 1024) }' /proc/meminfo)
    cat > "$folder/slurm.conf" <<CONF
ClusterName=loopback
SlurmctldHost=$node(127.0.0.1)
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
SlurmctldPort=$controller_port
SlurmdPort=$node_port
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
MpiDefault=none
ReturnToService=2
MinJobAge=86400
KillWait=5
JobCompType=jobcomp/filetxt
JobCompLoc=$folder/jobs
NodeName=$node NodeAddr=127.0.0.1 CPUs=$processors RealMemory=$memory State=UNKNOWN
PartitionName=loopback Nodes=$node Default=YES MaxTime=INFINITE State=UP
CONF
    echo "CgroupPlugin=cgroup/v1" > "$folder/cgroup.conf" # one must be named; what is chosen above uses none
    # Snakemake's jobs start their step without the variables of Slurm, SLURM_CONF among them: their srun brings it along
    printf '#!/bin/sh\nexport SLURM_CONF=%q\nexec %q "$@"\n' "$folder/slurm.conf" "$(command -v srun)" > "$folder/bin/srun"
    # Where scontrol takes ten seconds, as on a busy machine, Snakemake asks sacct what became of jobs: without accounting
    # the controller knows. Asked for anything else, it fails as Slurm's own does here.
    cat > "$folder/bin/sacct" <<'SACCT'
#!/bin/sh
while [ $# -gt 0 ] && [ "$1" != --name ]; do shift; done
[ $# -eq 2 ] && exec squeue --states=all --noheader --format='%i|%T' --name "$2"
echo "Slurm accounting storage is disabled" >&2
exit 1
SACCT
    chmod +x "$folder"/bin/*
    munged --force --key-file="$folder/munge.key" --socket="$folder/munge.socket" --pid-file="$folder/munged.pid" \
        --log-file="$folder/munged.log" --seed-file="$folder/munged.seed" > "$folder/munged.out" 2>&1
    slurmctld -c > "$folder/slurmctld.out" 2>&1
    slurmd > "$folder/slurmd.out" 2>&1
    for _ in $(seq 100); do
        if [ "$(sinfo --noheader --format %t 2> /dev/null)" = idle ]; then
            printf 'export SLURM_CONF=%q PATH=%q:$PATH\n' "$folder/slurm.conf" "$folder/bin"
            return
        fi
        sleep 0.2
    done
    tail -n 5 "$folder"/*.log >&2
    stop
    echo "no node became idle; its logs are in $folder" >&2
    return 1
}

free_ports() {
    python3 -c 'import socket
both = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(one.getsockname()[1] for one in both))'
}

stop() {
    [ -e "$folder/slurmctld.pid" ] && scancel --user="$(id -un)" 2> /dev/null
    for _ in $(seq 60); do
        [ -z "$(squeue --noheader --states=running,completing 2> /dev/null)" ] && break
        sleep 0.2
    done
    for daemon in slurmd slurmctld munged; do
        end "$folder/$daemon.pid"
    done
}

end() {
    local pid
    pid=$(cat "$1" 2> /dev/null) || return 0
    kill "$pid" 2> /dev/null || return 0
    for _ in $(seq 100); do
        kill -0 "$pid" 2> /dev/null || return 0
        sleep 0.1
    done
    kill -9 "$pid"
}

case "${1-} ${2-}" in
    "start "?* | "stop "?*)
        folder=$(realpath -m "$2")
        export SLURM_CONF="$folder/slurm.conf"
        "$1"
        ;;
    *)
        sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
esac
