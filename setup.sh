#!/usr/bin/env bash
# setup.sh [EXTRAS]: install what the targets of `make` need on a Debian or Ubuntu machine: system packages, a virtual
# environment, pinned Python packages. System packages are installed when this runs as root, or with ETUDE_SETUP=1
# through sudo; otherwise the missing ones are named. It is quick when nothing is missing. ETUDE_PYTHON names the
# interpreter to use.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

may_install() { [ "$(id -u)" = 0 ] || [ "${ETUDE_SETUP:-}" = 1 ]; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
apt_line() { if [ "$(id -u)" = 0 ]; then echo "apt-get install -y $*"; else echo "sudo apt-get install -y $*"; fi; }

apt_install() {
    command -v apt-get >/dev/null || die "apt-get is missing; install these with this system's package manager: $*"
    say "installing system packages: $*"
    [ -n "${apt_updated:-}" ] || as_root apt-get update -qq </dev/null >/dev/null
    apt_updated=1
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" </dev/null >/dev/null
}

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    local name
    for name in ${ETUDE_PYTHON:-python3 python3.13 python3.12 python3.11}; do
        if command -v "$name" >/dev/null && new_enough "$name"; then command -v "$name"; return; fi
    done
    return 1
}

# Print the newest Python >= 3.11 that this release packages, for machines whose python3 is older or missing.
packaged_python() {
    local name
    for name in python3.13 python3.12 python3.11; do
        if apt-cache show "$name-venv" >/dev/null 2>&1; then echo "$name"; return; fi
    done
    return 1
}

ensure_python() {
    if python=$(find_python); then return; fi
    [ -z "${ETUDE_PYTHON:-}" ] || die "ETUDE_PYTHON=$ETUDE_PYTHON is not a Python >= 3.11; name another interpreter"
    may_install || die "no Python >= 3.11 found. Run: $(apt_line python3 python3-venv)"
    apt_install ca-certificates
    name=$(packaged_python) || die "this release packages no Python >= 3.11; install one and set ETUDE_PYTHON=/path/to/python"
    apt_install "$name" "$name-venv"
    python=$(find_python) || die "installed $name but cannot run it"
}

ensure_venv_module() {
    if "$python" -c 'import ensurepip, venv' 2>/dev/null; then return; fi
    local package
    package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    may_install || die "$python cannot create virtual environments. Run: $(apt_line "$package")"
    apt_install "$package"
}

# git: workspaces of tasks are repositories. bubblewrap: the strongest sandbox; without it a weaker one is used.
ensure_tools() {
    local missing=()
    command -v git >/dev/null || missing+=(git)
    command -v bwrap >/dev/null || missing+=(bubblewrap)
    [ ${#missing[@]} -gt 0 ] || return 0
    if may_install; then apt_install "${missing[@]}"; return; fi
    command -v git >/dev/null || die "git is missing. Run: $(apt_line "${missing[@]}")  (or: ETUDE_SETUP=1 make ...)"
    say "bubblewrap is missing; tasks run in the weaker sandbox 'process'."
    say "For the stronger one run: $(apt_line bubblewrap)  (or: ETUDE_SETUP=1 make ...)"
}

# docker and podman: two more sandboxes. With CI=true their tests must run, so both are installed and started. Otherwise
# they are left alone and the missing ones are named.
ensure_engines() {
    local missing=()
    command -v dockerd >/dev/null || missing+=(docker.io)
    command -v podman >/dev/null || missing+=(podman)
    if [ "${CI:-}" = true ] && [ "$(id -u)" = 0 ]; then
        command -v debootstrap >/dev/null || missing+=(debootstrap) # slow tests make a base image with it
        command -v chromium >/dev/null || missing+=(chromium) # the tests of the viewer open its pages in it
        command -v haproxy >/dev/null || missing+=(haproxy) # tests route the requests of two replicas with it
        command -v nginx >/dev/null || missing+=(nginx-light)
        command -v docker-compose >/dev/null || missing+=(docker-compose) # checks examples/deploy/compose.yaml
        ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing+=(postgresql) # the store's tests start their own
        [ ${#missing[@]} -eq 0 ] || apt_install "${missing[@]}"
        # A killed engine leaves files that prevent the next start.
        listens docker || pgrep -x dockerd >/dev/null || rm -f /var/run/docker.pid /var/run/docker/containerd/containerd.pid
        listens docker || start_engine docker dockerd
        listens podman || start_engine podman podman system service --time 0 unix:///run/podman/podman.sock
    elif [ ${#missing[@]} -gt 0 ]; then
        say "${missing[*]} not found; the 'docker' and 'podman' sandboxes and their tests are left out (optional)."
    fi
}

listens() {
    case $1 in
        docker) docker version >/dev/null 2>&1 ;;
        podman) [ -S /run/podman/podman.sock ] && podman --url unix:///run/podman/podman.sock version >/dev/null 2>&1 ;;
    esac
}

# start_engine NAME COMMAND...: start an engine in the background, for as long as the machine runs.
start_engine() {
    local name=$1 log=/var/log/etude-$1.log
    shift
    say "starting $name"
    mkdir -p /run/podman
    # Started from /, since podman's helper leaves a file in its folder when a container runs out of memory.
    (cd / && exec setsid "$@" </dev/null >"$log" 2>&1) &
    for _ in $(seq 60); do
        if listens "$name"; then return; fi
        sleep 0.5
    done
    tail -n 5 "$log" >&2
    die "$name does not start; the end of its log is above"
}

# ensure_packages EXTRAS: install the extras that are missing. The stamp holds a hash of everything that chooses versions,
# then the extras that are installed with it.
ensure_packages() {
    local extras=$1 stamp=.venv/.etude-stamp key old_key="" installed="" extra missing=""
    key=$({ pwd; echo "$python"; "$python" -V; cat pyproject.toml constraints.txt setup.sh; } | sha256sum)
    if [ -x .venv/bin/etude ] && [ -f "$stamp" ]; then
        { read -r old_key && read -r installed; } <"$stamp" || true
    fi
    [ "$old_key" = "$key" ] || installed=""
    for extra in ${extras//,/ }; do
        [[ ",$installed," == *",$extra,"* ]] || missing=yes
    done
    [ -n "$missing" ] || return 0
    if ! { new_enough .venv/bin/python && .venv/bin/python -c 'import pip' 2>/dev/null; }; then
        ensure_venv_module
        "$python" -m venv --clear .venv
        installed=""
    fi
    advise_on_torch "$extras"
    say "installing Python packages into .venv: $extras (a few minutes the first time)"
    rm -f "$stamp"
    .venv/bin/python -m pip install --disable-pip-version-check -c constraints.txt -e ".[$extras]" </dev/null |
        show_packages || die "pip failed; its reason is above. Check the network, then run this again"
    for extra in ${extras//,/ }; do
        [[ ",$installed," == *",$extra,"* ]] || installed="${installed:+$installed,}$extra"
    done
    printf '%s\n' "$key" "$installed" >"$stamp"
}

# Replace pip's output by one line that counts the packages; on a terminal it is rewritten in place.
show_packages() {
    local line count=0
    while read -r line; do
        case $line in
            Collecting*)
                count=$((count + 1))
                if [ -t 2 ]; then printf '\rsetup: %3d packages, now %-50.50s' "$count" "${line#Collecting }" >&2; fi
                ;;
            Installing*) say_over "installing $count packages" ;;
        esac
    done
}

say_over() { if [ -t 2 ]; then printf '\r%-80s\n' "setup: $*" >&2; else say "$*"; fi; }

# Training needs PyTorch, whose default build for Linux carries several GB for NVIDIA GPUs.
advise_on_torch() {
    [[ ",$1," == *,train,* ]] && [ ! -e /proc/driver/nvidia ] && [ -z "${PIP_EXTRA_INDEX_URL:-}" ] || return 0
    ! .venv/bin/python -c 'import torch' 2>/dev/null || return 0
    say "No NVIDIA GPU found. PyTorch's build for CPUs is 10 times smaller than the default one: to get it, set"
    say "PIP_EXTRA_INDEX_URL to the address that https://pytorch.org/get-started/locally names for 'CPU'."
}

ensure_python
ensure_tools
ensure_engines
ensure_packages "${1:-server,dev}"
