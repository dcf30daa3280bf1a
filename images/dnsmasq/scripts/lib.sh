# What the scripts of this function share.
. "$WEIR_IMAGE/scripts/check.sh"
. "$WEIR_IMAGE/scripts/ports.sh"

# What is written is read by a user of its own too.
umask 022

# Checks all parameters and writes the files of dnsmasq; they are in force only once they are moved to their place by `settle`.
check() {
    address ADDRESS "$PARAM_ADDRESS"
    network NET "$PARAM_NET"
    member ADDRESS "$PARAM_ADDRESS" "$PARAM_NET"
    number LEASE "$PARAM_LEASE" 120 31536000
    name DOMAIN "$PARAM_DOMAIN"
    if [ -n "$PARAM_ROUTER" ]; then
        address ROUTER "$PARAM_ROUTER"
        member ROUTER "$PARAM_ROUTER" "$PARAM_NET"
    fi
    range=$(range)
    servers=$(servers)
    hosts=$(hosts)

    mkdir -p /run/dnsmasq.new
    grep '^host ' <<END | sed 's/^host //' >/run/dnsmasq.new/hosts || true
$hosts
END
    grep '^lease ' <<END | sed 's/^lease //' >/run/dnsmasq.new/leases || true
$hosts
END
    configuration >/run/dnsmasq.new/conf
    dnsmasq --test --conf-file=/run/dnsmasq.new/conf 2>/run/dnsmasq.new/test || { cat /run/dnsmasq.new/test >&2; exit 1; }
}

configuration() {
    cat <<END
interface=lan
except-interface=lo
bind-interfaces
user=dnsmasq
no-resolv
no-hosts
no-poll
domain-needed
bogus-priv
localise-queries
domain=$PARAM_DOMAIN
local=/$PARAM_DOMAIN/
expand-hosts
addn-hosts=/run/dnsmasq/hosts
dhcp-hostsfile=/run/dnsmasq/leases
dhcp-leasefile=$WEIR_STATE/leases
dhcp-authoritative
$range
$servers
END
    if [ -n "$PARAM_ROUTER" ]; then
        echo "dhcp-option=option:router,$PARAM_ROUTER"
    else
        # Without a value no router is offered; else it would be this function.
        echo "dhcp-option=option:router"
    fi
}

# Without a range only the hosts with an Ethernet address get theirs.
range() {
    if [ -z "$PARAM_RANGE" ]; then
        echo "dhcp-range=$PARAM_ADDRESS,static,$PARAM_LEASE"
        return
    fi
    first=${PARAM_RANGE%-*}
    last=${PARAM_RANGE##*-}
    if [ "$first-$last" != "$PARAM_RANGE" ] || ! is_address "$first" || ! is_address "$last"; then
        refuse RANGE "$PARAM_RANGE" "FIRST-LAST, such as 10.0.0.100-10.0.0.199"
    fi
    member RANGE "$first" "$PARAM_NET"
    member RANGE "$last" "$PARAM_NET"
    value "$first"
    low=$value
    value "$last"
    [ "$low" -le "$value" ] || refuse RANGE "$PARAM_RANGE" "the first address not to be after the last"
    echo "dhcp-range=$first,$last,$PARAM_LEASE"
}

servers() {
    IFS=', '
    for server in $PARAM_SERVERS; do
        address SERVERS "$server"
        echo "server=$server"
    done
}

# HOSTS as lines: "host ADDRESS NAME", and "lease ETHERNET-ADDRESS,ADDRESS,NAME" with an Ethernet address.
hosts() {
    IFS=,
    set -- $PARAM_HOSTS
    unset IFS
    for entry in "$@"; do
        host "$entry" $entry
    done
}

# host ENTRY NAME ADDRESS [ETHERNET-ADDRESS]
host() {
    entry=$1
    shift
    [ $# -gt 0 ] || return 0
    case $# in
    2 | 3) ;;
    *) refuse HOSTS "$entry" "NAME ADDRESS [ETHERNET-ADDRESS], such as web 10.0.0.5" ;;
    esac
    name HOSTS "$1"
    address "HOSTS ($1)" "$2"
    echo "host $2 $1"
    [ $# -eq 3 ] || return 0
    h='[0-9a-fA-F]'
    case $3 in
    $h$h:$h$h:$h$h:$h$h:$h$h:$h$h) ;;
    *) refuse "HOSTS ($1)" "$3" "an Ethernet address such as 02:00:00:00:00:06" ;;
    esac
    member "HOSTS ($1)" "$2" "$PARAM_NET"
    echo "lease $3,$2,$1"
}

# name NAME VALUE: a host's or a domain's name (RFC 1123, section 2.1): labels of at most 63 characters.
name() {
    case .$2. in
    *[!a-zA-Z0-9.-]* | *..* | *.-* | *-.* | *$label64*) ;;
    *) if [ "${#2}" -le 253 ]; then return; fi ;;
    esac
    refuse "$1" "$2" "a name of letters, digits, - and ., such as web or web.example"
}

# A pattern of 64 characters within a label.
label8='[!.][!.][!.][!.][!.][!.][!.][!.]'
label64=$label8$label8$label8$label8$label8$label8$label8$label8

# Puts what `check` wrote, the address and the route in force.
settle() {
    mkdir -p /run/dnsmasq
    mv /run/dnsmasq.new/conf /run/dnsmasq.new/hosts /run/dnsmasq.new/leases /run/dnsmasq/
    # dnsmasq reads them again, as its own user, when it is told to.
    chmod 755 /run/dnsmasq
    chmod 644 /run/dnsmasq/conf /run/dnsmasq/hosts /run/dnsmasq/leases
    give lan "$PARAM_ADDRESS" "$PARAM_NET"
    gateway lan "$PARAM_ROUTER"
}
