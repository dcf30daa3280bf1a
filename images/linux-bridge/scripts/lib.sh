# What the scripts of this function share.
set -eu
LC_ALL=C
export LC_ALL

# Checks all parameters, then applies them and joins the ports that the graph uses.
apply() {
    number TIMEOUT "$PARAM_TIMEOUT" 1 86400
    number PRIORITY "$PARAM_PRIORITY" 0 65535
    number FORWARD_DELAY "$PARAM_FORWARD_DELAY" 2 30
    stp=$(switch STP "$PARAM_STP")
    snooping=$(switch SNOOPING "$PARAM_SNOOPING")
    isolated=$(isolated)

    # The kernel counts these in hundredths of a second.
    ip link set dev br type bridge ageing_time "$((PARAM_TIMEOUT * 100))" mcast_snooping "$snooping" \
        priority "$PARAM_PRIORITY" forward_delay "$((PARAM_FORWARD_DELAY * 100))"
    if [ "$(ip -d link show dev br | sed -n 's/.* stp_state \([01]\) .*/\1/p')" != "$stp" ]; then
        ip link set dev br type bridge stp_state "$stp"
    fi
    for port in $WEIR_PORTS; do
        # A port that is joined already is left as it is: joining anew would forget its addresses.
        [ -n "$(bridge link show dev "$port")" ] || ip link set dev "$port" master br
        case " $isolated " in
        *" $port "*) bridge link set dev "$port" isolated on ;;
        *) bridge link set dev "$port" isolated off ;;
        esac
        ip link set dev "$port" up
    done
}

number() {
    case $2 in
    '' | 0?* | *[!0-9]* | ????????*) ;;
    *) if [ "$2" -ge "$3" ] && [ "$2" -le "$4" ]; then return; fi ;;
    esac
    echo "$1: expected a number from $3 to $4" >&2
    exit 1
}

# 1 for true, 0 for false.
switch() {
    case $2 in
    true) echo 1 ;;
    false) echo 0 ;;
    *) echo "$1: expected true or false" >&2; exit 1 ;;
    esac
}

# The isolated ports, separated by blanks: ports of this image, whether the graph uses them or not.
isolated() {
    set -f
    for port in $(printf %s "$PARAM_ISOLATED" | tr , ' '); do
        case $port in
        p[1-9] | p1[0-6]) printf '%s ' "$port" ;;
        *) printf 'ISOLATED: expected ports p1 to p16, found "%s"\n' "$(printf %.60s "$port" | tr -c ' -~' '?')" >&2; exit 1 ;;
        esac
    done
}
