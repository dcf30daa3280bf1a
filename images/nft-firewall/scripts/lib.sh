# What the scripts of this function share. Frames cross a bridge; br_netfilter gives its IPv4 and IPv6 packets to the hooks of the
# family inet, where connections are tracked. There a packet's device is the bridge: a mark says which port it came in by.
set -eu
LC_ALL=C
export LC_ALL
scripts=$WEIR_IMAGE/scripts

# The port that a mark stands for: 1 is inside, 2 is outside.
marks='iifname "inside" meta mark set 1; iifname "outside" meta mark set 2;'

# Checks all parameters and prints the ruleset; the kernel takes it whole or not at all, and named counters go on.
ruleset() {
    rules=$(awk -v NAME=RULES -f "$scripts/rules.awk" </dev/null)
    return_rules=$(awk -v NAME=RETURN_RULES -f "$scripts/rules.awk" </dev/null)
    cat <<END
table bridge weir {
    chain arrive { type filter hook prerouting priority -300; }
    chain forward { type filter hook forward priority 10; policy drop; }
}
flush table bridge weir
table bridge weir {
    chain arrive { $marks }
    chain forward { ether type { arp, ip, ip6 } accept; }
}
table inet weir {
    counter passed { }
    counter invalid { }
    counter refused { }
    counter return_refused { }
    chain forward { type filter hook forward priority filter; policy drop; }
    chain input { type filter hook input priority filter; policy drop; }
    chain rules { }
    chain return_rules { }
}
flush table inet weir
table inet weir {
    chain forward {
        ct state established,related counter name passed accept
        ct state invalid counter name invalid drop
        icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept
        meta mark 1 jump rules
        meta mark 2 jump return_rules
        meta mark 1 counter name refused
        meta mark 2 counter name return_refused
    }
    chain rules {
$rules
    }
    chain return_rules {
$return_rules
    }
}
END
}

# Checks all parameters, then puts rules and time limits in force.
apply() {
    ruleset >/run/ruleset.new
    seconds TCP_TIMEOUT "$PARAM_TCP_TIMEOUT"
    seconds UDP_TIMEOUT "$PARAM_UDP_TIMEOUT"
    nft -f /run/ruleset.new
    mv /run/ruleset.new /run/ruleset
    echo "$PARAM_TCP_TIMEOUT" >/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established
    echo "$PARAM_UDP_TIMEOUT" >/proc/sys/net/netfilter/nf_conntrack_udp_timeout_stream
}

seconds() {
    case $2 in
    '' | 0* | *[!0-9]* | ????????*) echo "$1: expected a number of seconds" >&2; exit 1 ;;
    esac
}

# Joins the ports that the graph uses to the bridge.
join() {
    for port in $WEIR_PORTS; do
        ip link set dev "$port" master br
        ip link set dev "$port" up
    done
}

# The rules of a chain with what they counted: "PACKETS RULE" a line.
hits() {
    nft list chain inet weir "$1" | sed -n 's/^\t\t\(.*\)counter packets \([0-9]*\) bytes [0-9]* \(accept\|drop\)$/\2 \1\3/p'
}

# The rules of a chain as they are in force.
rules() {
    nft --stateless list chain inet weir "$1" | sed -n 's/^\t\t\(.*\)counter \(accept\|drop\)$/\1\2/p'
}
