#!/usr/bin/env bash
# Installs what tests and the demonstration need, if any is missing: system packages (Debian, Ubuntu), Python packages, what the
# dashboard is built and tested with from npm.
# The Rust toolchain is assumed: see rust-version in Cargo.toml.
set -euo pipefail
cd "$(dirname "$0")/.."

# A program that must be there, and the package that has it.
needed="
/usr/bin/python3:python3
/usr/include/osipparser2/osip_message.h:libosip2-dev
/usr/lib/ipsec/charon:strongswan-charon
/usr/lib/ipsec/plugins/libstrongswan-gcm.so:libstrongswan-standard-plugins
/usr/lib/ipsec/plugins/libstrongswan-kernel-libipsec.so:libcharon-extra-plugins
busybox:busybox-static
cc:build-essential
chromium:chromium
conntrack:conntrack
curl:curl
dig:bind9-dnsutils
dnsmasq:dnsmasq-base
docker-registry:docker-registry
dpdk-testpmd:dpdk-dev
etcd:etcd-server
etcdctl:etcd-client
ethtool:ethtool
fish:fish
ip:iproute2
iperf3:iperf3
iptables-restore:iptables
jq:jq
kamailio:kamailio
make:make
named:bind9
nft:nftables
node:nodejs
npm:npm
nsenter:util-linux
objcopy:binutils
ovs-vswitchd:openvswitch-switch
openssl:openssl
osken-manager:python3-os-ken
qemu-system-x86_64:qemu-system-x86
redis-server:redis-server
ping:iputils-ping
promtool:prometheus
runc:runc
scapy:python3-scapy
sipp:sip-tester
skopeo:skopeo
socat:socat
squid:squid
squidclient:squidclient
swanctl:strongswan-swanctl
sysctl:procps
systemd-analyze:systemd
tcpdump:tcpdump
tshark:tshark
udhcpc:udhcpc
umoci:umoci
wg:wireguard-tools
wireguard-go:wireguard-go
z3:z3
zsh:zsh
"

want=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
if ! command -v cargo >/dev/null; then
  echo "error: cargo is missing; install Rust $want or later (rustup does that), with rustfmt and clippy" >&2
  exit 1
fi
have=$(rustc --version | cut -d ' ' -f 2)
if [ "$(printf '%s\n' "$want" "$have" | sort -V | head -n 1)" != "$want" ]; then
  echo "error: this is Rust $have; Weir needs $want or later (rustup update)" >&2
  exit 1
fi
for component in fmt clippy; do
  if ! cargo "$component" --version >/dev/null 2>&1; then
    echo "error: cargo $component is missing (rustup component add rustfmt clippy)" >&2
    exit 1
  fi
done

missing=()
for line in $needed; do
  program=${line%%:*}
  # A path is one of a file, which need not be a program.
  [ -e "$program" ] || command -v "$program" >/dev/null || missing+=("${line##*:}")
done
/usr/bin/python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
if [ ${#missing[@]} -ne 0 ]; then
  if ! command -v apt-get >/dev/null; then
    echo "error: install what these Debian packages hold: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(env DEBIAN_FRONTEND=noninteractive)
  if [ "$(id -u)" -ne 0 ]; then
    as_root=(sudo "${as_root[@]}")
  fi
  echo "installing ${missing[*]}"
  "${as_root[@]}" apt-get update -q
  "${as_root[@]}" apt-get install -q -y --no-install-recommends "${missing[@]}" </dev/null
fi

# What Debian has not: NAME REQUIREMENTS. Each in an environment of its own.
python() {
  if ! cmp -s "$2" "target/$1/installed.txt"; then
    echo "installing what $2 lists"
    rm -rf "target/$1"
    /usr/bin/python3 -m venv "target/$1"
    "target/$1/bin/pip" install -q -r "$2"
    cp "$2" "target/$1/installed.txt"
  fi
}
python schemathesis scripts/schemathesis.txt
python sdk sdk/python/requirements.txt

if ! cmp -s web/package-lock.json web/node_modules/installed.json; then
  echo "installing what the dashboard is built and tested with"
  (cd web && npm ci --no-audit --no-fund --loglevel=error </dev/null)
  cp web/package-lock.json web/node_modules/installed.json
fi
