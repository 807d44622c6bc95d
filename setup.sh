#!/usr/bin/env bash
# Everything `make` needs on a Debian or Ubuntu machine: system packages, a virtual environment, pinned Python packages.
# System packages are installed when run as root, or with ETUDE_SETUP=1 through sudo; otherwise the missing ones are named.
# Quick when there is nothing to do. ETUDE_PYTHON chooses the interpreter.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

may_install() { [ "$(id -u)" = 0 ] || [ "${ETUDE_SETUP:-}" = 1 ]; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
apt_line() { if [ "$(id -u)" = 0 ]; then echo "apt-get install -y $*"; else echo "sudo apt-get install -y $*"; fi; }

apt_install() {
    command -v apt-get >/dev/null || die "no apt-get here: install by this system's own means: $*"
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

# The newest Python >= 3.11 that this release packages, where plain python3 is older or absent.
packaged_python() {
    local name
    for name in python3.13 python3.12 python3.11; do
        if apt-cache show "$name-venv" >/dev/null 2>&1; then echo "$name"; return; fi
    done
    return 1
}

ensure_python() {
    if python=$(find_python); then return; fi
    [ -z "${ETUDE_PYTHON:-}" ] || die "ETUDE_PYTHON=$ETUDE_PYTHON is not a Python >= 3.11"
    may_install || die "no Python >= 3.11 found. Install one, then run this again: $(apt_line python3 python3-venv)"
    apt_install ca-certificates
    name=$(packaged_python) || die "this release packages no Python >= 3.11: install one and set ETUDE_PYTHON=/path/to/python"
    apt_install "$name" "$name-venv"
    python=$(find_python) || die "installed $name but cannot run it"
}

ensure_venv_module() {
    if "$python" -c 'import ensurepip, venv' 2>/dev/null; then return; fi
    local package
    package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    may_install || die "$python cannot make virtual environments. Run: $(apt_line "$package")"
    apt_install "$package"
}

# git: the workspaces of tasks are repositories. bubblewrap: the strongest sandbox; without it the weaker one is used.
ensure_tools() {
    local missing=()
    command -v git >/dev/null || missing+=(git)
    command -v bwrap >/dev/null || missing+=(bubblewrap)
    [ ${#missing[@]} -gt 0 ] || return 0
    if may_install; then apt_install "${missing[@]}"; return; fi
    command -v git >/dev/null || die "git is missing. Run: $(apt_line "${missing[@]}")  (or: ETUDE_SETUP=1 make ...)"
    say "bubblewrap is missing: going on with the strongest sandbox at hand, 'process'."
    say "for the stronger one run: $(apt_line bubblewrap)  (or: ETUDE_SETUP=1 make ...)"
}

# docker and podman: two more sandboxes. Where CI=true their tests must run, so both are installed and started; elsewhere
# they are left alone, and what is missing is named.
ensure_engines() {
    local missing=()
    command -v dockerd >/dev/null || missing+=(docker.io)
    command -v podman >/dev/null || missing+=(podman)
    if [ "${CI:-}" = true ] && [ "$(id -u)" = 0 ]; then
        [ ${#missing[@]} -eq 0 ] || apt_install "${missing[@]}"
        # One that was killed leaves files that keep the next from starting.
        listens docker || pgrep -x dockerd >/dev/null || rm -f /var/run/docker.pid /var/run/docker/containerd/containerd.pid
        listens docker || start_engine docker dockerd
        listens podman || start_engine podman podman system service --time 0 unix:///run/podman/podman.sock
    elif [ ${#missing[@]} -gt 0 ]; then
        say "without ${missing[*]}: no 'docker' and 'podman' sandboxes, and their tests are left out."
        say "for them run: $(apt_line "${missing[@]}"), and start their services"
    fi
}

listens() {
    case $1 in
        docker) docker version >/dev/null 2>&1 ;;
        podman) [ -S /run/podman/podman.sock ] && podman --url unix:///run/podman/podman.sock version >/dev/null 2>&1 ;;
    esac
}

# start_engine NAME COMMAND...: in the background, for as long as the machine runs.
start_engine() {
    local name=$1 log=/var/log/etude-$1.log
    shift
    say "starting $name"
    mkdir -p /run/podman
    # From the root folder: podman's helper leaves a file where it was started when a container runs out of memory.
    (cd / && exec setsid "$@" </dev/null >"$log" 2>&1) &
    for _ in $(seq 60); do
        if listens "$name"; then return; fi
        sleep 0.5
    done
    tail -n 5 "$log" >&2
    die "$name does not start; its last words are above"
}

# ensure_packages EXTRAS: what is installed already for more is enough for less.
ensure_packages() {
    local extras=$1 stamp=.venv/.etude-stamp want
    want=$({ pwd; echo "$python"; "$python" -V; cat pyproject.toml constraints.txt setup.sh; } | sha256sum)
    if [ -x .venv/bin/etude ] && grep -qxF "$want$extras" "$stamp" 2>/dev/null; then return; fi
    say "installing Python packages into .venv (a few minutes the first time)"
    rm -f "$stamp"
    if ! { new_enough .venv/bin/python && .venv/bin/python -c 'import pip' 2>/dev/null; }; then
        ensure_venv_module
        "$python" -m venv --clear .venv
    fi
    .venv/bin/python -m pip install -q --disable-pip-version-check -c constraints.txt -e ".[$extras]" </dev/null >&2 ||
        die "pip failed; its reason is above. Check the network, then run this again"
    printf '%s\n' "$want$extras" "${want}server,dev" >"$stamp"
}

ensure_python
ensure_tools
ensure_engines
ensure_packages "${1:-server,dev}"
