# Addresses of ports, for a function with addresses.

# has PORT: whether the graph uses the port.
has() {
    case " $WEIR_PORTS " in
    *" $1 "*) return 0 ;;
    esac
    return 1
}

# give PORT ADDRESS PREFIX: the port is up and has this address and no other. What is right already is not touched.
#
# A port's Ethernet address follows from its IP address when it comes up, so that the ARP entries of its neighbours stay right when the
# function is made anew.
give() {
    has "$1" || return 0
    case $(ip -o link show dev "$1") in
    *[,\<]UP[,\>]*) ;;
    *)
        value "$2"
        ip link set dev "$1" address "$(printf '02:57:%02x:%02x:%02x:%02x' "$a" "$b" "$c" "$d")"
        ;;
    esac
    wanted=$2/${3#*/}
    for other in $(ip -o -4 addr show dev "$1" | awk '{ print $4 }'); do
        [ "$other" = "$wanted" ] || ip addr del "$other" dev "$1"
    done
    ip addr replace "$wanted" dev "$1"
    ip link set dev "$1" up
}

# gateway PORT ADDRESS: the default route; an empty address is none.
gateway() {
    if [ -n "$2" ] && has "$1"; then
        ip route replace default via "$2" dev "$1"
    else
        ip route del default 2>/dev/null || true
    fi
}

# clear: all ports are down and without addresses. A port may be gone.
clear() {
    for port in $WEIR_PORTS; do
        ip addr flush dev "$port" || true
        ip link set dev "$port" down || true
    done
}
