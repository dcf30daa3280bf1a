# What the scripts of this function share.
. "$WEIR_IMAGE/scripts/check.sh"
. "$WEIR_IMAGE/scripts/ports.sh"

# Of this function alone, in its private directory; nothing of /etc is read.
dir=/run/strongswan
STRONGSWAN_CONF=$dir/strongswan.conf
SWANCTL_DIR=$dir
export STRONGSWAN_CONF SWANCTL_DIR
umask 077

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
    address SERVER "$PARAM_SERVER"
    number DPD "$PARAM_DPD" 1 3600
    id=${PARAM_ID:-$PARAM_OUTSIDE_IP}
    server_id=${PARAM_SERVER_ID:-$PARAM_SERVER}
    identity ID "$id"
    identity SERVER_ID "$server_id"
    remote=$(networks)
    # The value itself is not shown: messages go to the log. It is no variable of the environment.
    psk=$(cat "$PARAM_PSK_FILE"; printf .)
    psk=${psk%.}
    if [ "${#psk}" -lt 8 ] || [ "${#psk}" -gt 512 ]; then
        echo "PSK: found ${#psk} characters, expected 8 to 512" >&2
        exit 1
    fi
    mkdir -p "$dir"
    connection >"$dir/swanctl.new"
}

networks() {
    IFS=', '
    set -- $PARAM_REMOTE_NETS
    unset IFS
    [ $# -gt 0 ] || refuse REMOTE_NETS "" "at least one network, such as 10.20.0.0/16"
    list=
    for net in "$@"; do
        network REMOTE_NETS "$net"
        list="$list${list:+,}$net"
    done
    echo "$list"
}

identity() {
    case $2 in
    *[!a-zA-Z0-9.@_-]*) ;;
    [a-zA-Z0-9]*) if [ "${#2}" -le 128 ]; then return; fi ;;
    esac
    refuse "$1" "$2" "a name, a mail address or an IPv4 address, such as home@example.org"
}

connection() {
    cat <<END
connections {
    tunnel {
        version = 2
        local_addrs = $PARAM_OUTSIDE_IP
        remote_addrs = $PARAM_SERVER
        keyingtries = 0
        dpd_delay = ${PARAM_DPD}s
        encap = yes
        local {
            auth = psk
            id = $id
        }
        remote {
            auth = psk
            id = $server_id
        }
        children {
            tunnel {
                local_ts = $PARAM_INSIDE_NET
                remote_ts = $remote
                start_action = start
                close_action = start
                dpd_action = restart
            }
        }
    }
}
secrets {
    ike-server {
        id = $server_id
        secret = 0x$(od -An -v -tx1 < "$PARAM_PSK_FILE" | tr -d ' \n')
    }
}
END
}

# strongSwan's own settings: only the plug-ins that are needed, control by a socket of this function alone, a short log.
settings() {
    cat <<END
charon {
    load = random nonce openssl hmac kdf aes sha1 sha2 gcm kernel-libipsec kernel-netlink socket-default vici
    threads = 16
    install_virtual_ip = no
    retry_initiate_interval = 5
    retransmit_tries = 3
    retransmit_timeout = 2
    plugins {
        kernel-libipsec {
            load = yes
        }
        vici {
            socket = unix://$dir/vici
        }
    }
    syslog {
        daemon {
            default = -1
        }
        auth {
            default = -1
        }
    }
    filelog {
        stderr {
            default = 0
            ike = 1
            cfg = 0
            flush_line = yes
        }
    }
}
swanctl {
    load = random openssl
}
END
}

settle() {
    give inside "$PARAM_INSIDE_IP" "$PARAM_INSIDE_NET"
    give outside "$PARAM_OUTSIDE_IP" "$PARAM_OUTSIDE_NET"
    gateway outside "$PARAM_GATEWAY"
    mv "$dir/swanctl.new" "$dir/swanctl.conf"
}

# control COMMAND...: swanctl, its messages only if it fails.
control() {
    command=$1
    shift
    swanctl "$command" "$@" --uri "unix://$dir/vici" >"$dir/control.$$" 2>&1 || {
        cat "$dir/control.$$" >&2
        rm -f "$dir/control.$$"
        return 1
    }
    rm -f "$dir/control.$$"
}

# Loads the key and the connection; a tunnel that they did not change goes on.
load() {
    control --load-creds --clear --noprompt --file "$dir/swanctl.conf"
    control --load-conns --file "$dir/swanctl.conf"
}

# report: the tunnels by strongSwan's report.
report() {
    swanctl --list-sas --uri "unix://$dir/vici"
}

# state: established, connecting or down.
state() {
    report | awk '
        /^tunnel: .* CONNECTING/ { state = "connecting" }
        /^  tunnel: .* INSTALLED/ { found = 1 }
        END { print found ? "established" : state ? state : "down" }'
}
