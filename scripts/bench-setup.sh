#!/usr/bin/env bash
# Installs the programs that `make bench` measures beside Weir, if any is missing and this is root (Debian, Ubuntu).
# Without them the benchmarks run too and say what they leave out.
set -euo pipefail

# A program that has to be there, and the package that has it.
needed="
/usr/bin/dpdk-testpmd:dpdk-dev
/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk:openvswitch-switch-dpdk
/usr/bin/ovs-vsctl:openvswitch-switch
/usr/bin/stdbuf:coreutils
/usr/bin/z3:z3
/usr/bin/iperf3:iperf3
/usr/sbin/ip:iproute2
/usr/sbin/nft:nftables
/usr/sbin/sysctl:procps
"

missing=()
for line in $needed; do
  program=${line%%:*}
  # Where /usr/sbin and /sbin are two folders, programs may be in either.
  if [ ! -e "$program" ] && [ ! -e "${program#/usr}" ]; then
    missing+=("${line##*:}")
  fi
done
if [ ${#missing[@]} -eq 0 ]; then
  exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "not installed, so not measured: ${missing[*]} (Debian packages; root installs them)"
  exit 0
fi
echo "installing ${missing[*]}"
# Their services are not to start: the benchmarks start what they need themselves.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
  trap 'rm -f $policy' EXIT
  printf '#!/bin/sh\nexit 101\n' >$policy
  chmod 755 $policy
fi
export DEBIAN_FRONTEND=noninteractive
if ! apt-get update -q || ! apt-get install -q -y --no-install-recommends "${missing[@]}" </dev/null; then
  echo "could not install ${missing[*]}: they are not measured"
fi
