# What the scripts of this function share.
. "$WEIR_IMAGE/scripts/check.sh"
. "$WEIR_IMAGE/scripts/ports.sh"

# Checks all parameters, and has the kernel try the ruleset.
check() {
    address INSIDE_IP "$PARAM_INSIDE_IP"
    network INSIDE_NET "$PARAM_INSIDE_NET"
    member INSIDE_IP "$PARAM_INSIDE_IP" "$PARAM_INSIDE_NET"
    address OUTSIDE_IP "$PARAM_OUTSIDE_IP"
    network OUTSIDE_NET "$PARAM_OUTSIDE_NET"
    member OUTSIDE_IP "$PARAM_OUTSIDE_IP" "$PARAM_OUTSIDE_NET"
    if [ -n "$PARAM_GATEWAY" ]; then
        address GATEWAY "$PARAM_GATEWAY"
        member GATEWAY "$PARAM_GATEWAY" "$PARAM_OUTSIDE_NET"
    fi
    number TCP_TIMEOUT "$PARAM_TCP_TIMEOUT" 60 604800
    number UDP_TIMEOUT "$PARAM_UDP_TIMEOUT" 10 86400
    forward=$(forwards)

    ruleset >/run/ruleset.new
    nft --check --file /run/ruleset.new
}

# Puts addresses, rules and time limits in force once all parameters have been checked. Rules are replaced as a whole; connections go
# on, since their translations are the connection table's.
apply() {
    check
    give inside "$PARAM_INSIDE_IP" "$PARAM_INSIDE_NET"
    give outside "$PARAM_OUTSIDE_IP" "$PARAM_OUTSIDE_NET"
    gateway outside "$PARAM_GATEWAY"
    nft --file /run/ruleset.new
    mv /run/ruleset.new /run/ruleset
    echo "$PARAM_TCP_TIMEOUT" >/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established
    echo "$PARAM_UDP_TIMEOUT" >/proc/sys/net/netfilter/nf_conntrack_udp_timeout_stream
}

# The forwarded ports as rules. The ports of an address are checked to be forwarded once: of two rules the second would do nothing.
forwards() {
    IFS=,
    set -- $PARAM_FORWARD
    unset IFS
    seen=' '
    for entry in "$@"; do
        forward_one "$entry" $entry
    done
}

# forward_one ENTRY PROTOCOL PORT ADDRESS [PORT]
forward_one() {
    entry=$1
    shift
    [ $# -gt 0 ] || return 0
    case $#:$1 in
    [34]:tcp | [34]:udp) ;;
    *) refuse FORWARD "$entry" "PROTOCOL PORT ADDRESS [PORT] with tcp or udp, such as tcp 8080 10.0.0.5 80" ;;
    esac
    number "FORWARD ($1)" "$2" 1 65535
    address "FORWARD ($1 $2)" "$3"
    member "FORWARD ($1 $2)" "$3" "$PARAM_INSIDE_NET"
    number "FORWARD ($1 $2)" "${4:-$2}" 1 65535
    case $seen in
    *" $1-$2 "*) refuse FORWARD "$entry" "each port once" ;;
    esac
    seen="$seen$1-$2 "
    echo "        ip daddr $PARAM_OUTSIDE_IP $1 dport $2 counter dnat to $3:${4:-$2}"
}

ruleset() {
    cat <<END
table ip weir {
    counter passed { }
    counter outward { }
    counter forwarded { }
    counter invalid { }
    counter refused { }
    chain arrive { type nat hook prerouting priority dstnat; }
    chain leave { type nat hook postrouting priority srcnat; }
    chain forward { type filter hook forward priority filter; policy drop; }
    chain input { type filter hook input priority filter; policy drop; }
}
flush table ip weir
table ip weir {
    chain arrive {
$forward
    }
    chain leave {
        oifname "outside" ip saddr $PARAM_INSIDE_NET snat to $PARAM_OUTSIDE_IP
        oifname "inside" iifname "inside" ct status dnat snat to $PARAM_INSIDE_IP
    }
    chain forward {
        ct state established,related counter name passed accept
        ct state invalid counter name invalid drop
        iifname "inside" oifname "outside" ip saddr $PARAM_INSIDE_NET counter name outward accept
        oifname "inside" ct status dnat counter name forwarded accept
        counter name refused
    }
    chain input {
        ct state established,related accept
        iifname "inside" icmp type echo-request accept
        iifname "outside" ip daddr $PARAM_OUTSIDE_IP icmp type echo-request accept
        counter name refused
    }
}
END
}

# forwarding 1|0: whether packets are routed.
forwarding() {
    echo "$1" >/proc/sys/net/ipv4/ip_forward
}
