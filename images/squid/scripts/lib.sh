# What the scripts of this function share.
. "$WEIR_IMAGE/scripts/check.sh"
. "$WEIR_IMAGE/scripts/ports.sh"

# What is written is read by a user of its own too.
umask 022

# Checks all parameters and writes the configuration, which is in force once `settle` has moved it to its place.
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
    number PORT "$PARAM_PORT" 1 65535
    number CACHE "$PARAM_CACHE" 0 64
    servers=$(servers)
    deny=$(domains DENY "$PARAM_DENY" denied)
    allow=$(domains ALLOW "$PARAM_ALLOW" allowed)

    mkdir -p /run/squid
    chown proxy: /run/squid
    configuration >/run/squid/conf.new
    # Its warnings are no mistakes of the user.
    squid -k parse -f /run/squid/conf.new 2>/run/squid/parse || { grep -E 'FATAL|ERROR' /run/squid/parse >&2; exit 1; }
}

configuration() {
    cat <<END
http_port $PARAM_INSIDE_IP:$PARAM_PORT
# For the handlers.
http_port 127.0.0.1:3128
visible_hostname proxy
pid_filename /run/squid/pid
cache_effective_user proxy
tcp_outgoing_address $PARAM_OUTSIDE_IP
$servers
dns_defnames off
hosts_file none
connect_timeout 10 seconds
forward_timeout 20 seconds
shutdown_lifetime 1 second

acl clients src $PARAM_INSIDE_NET
acl tls_ports port 443
acl web_ports port 80 443 1025-65535
acl CONNECT method CONNECT
acl own dst 127.0.0.0/8 $PARAM_INSIDE_IP $PARAM_OUTSIDE_IP
$deny
$allow
http_access allow localhost manager
http_access deny manager
http_access deny !clients
http_access deny own
http_access deny !web_ports
http_access deny CONNECT !tls_ports
${deny:+http_access deny denied
}${allow:+http_access deny !allowed
}http_access allow clients
http_access deny all

cache_mem $PARAM_CACHE MB
maximum_object_size_in_memory 1 MB
memory_cache_shared off
memory_pools off
access_log none
cache_store_log none
cache_log /dev/null
netdb_filename none
pinger_enable off
max_filedescriptors 4096
coredump_dir none
via off
END
    [ "$PARAM_CACHE" -gt 0 ] || echo "cache deny all"
}

servers() {
    IFS=', '
    set -- $PARAM_SERVERS
    unset IFS
    # Without any, the proxy must not ask the node's.
    [ $# -gt 0 ] || { printf 'dns_nameservers 127.0.0.1\ndns_timeout 1 second\n'; return; }
    for server in "$@"; do
        address SERVERS "$server"
    done
    printf 'dns_nameservers %s\ndns_timeout 5 seconds\n' "$*"
}

# domains NAME VALUE LIST: the list's definition: a domain means itself and all names below it. Of two domains one of which holds the
# other squid takes the wider one, with a warning.
domains() {
    list=$3
    name=$1
    IFS=', '
    set -- $2
    unset IFS
    for domain in "$@"; do
        case .$domain. in
        *[!a-zA-Z0-9.-]* | *..* | *.-* | *-.*) refuse "$name" "$domain" "a domain or an IPv4 address, such as debian.org" ;;
        esac
        [ "${#domain}" -le 253 ] || refuse "$name" "$domain" "a domain of at most 253 characters"
        if is_address "$domain"; then
            echo "acl $list dstdomain -n $domain"
        else
            echo "acl $list dstdomain -n .$domain"
        fi
    done
}

settle() {
    give inside "$PARAM_INSIDE_IP" "$PARAM_INSIDE_NET"
    give outside "$PARAM_OUTSIDE_IP" "$PARAM_OUTSIDE_NET"
    gateway outside "$PARAM_GATEWAY"
    mv /run/squid/conf.new /run/squid/conf
}

# report NAME: a report of squid's cache manager, without the HTTP header.
report() {
    report=$(squidclient -h 127.0.0.1 -p 3128 -T 5 "mgr:$1" 2>/run/squid/client) || { cat /run/squid/client >&2; exit 1; }
    printf '%s\n' "$report" | sed '1,/^\r*$/d'
}
