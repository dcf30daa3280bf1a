# What the scripts of this function share.
set -eu
LC_ALL=C
export LC_ALL

# Runs the switch with the parameters and these options in front.
switch() {
    # Files are the node's: a graph names none of them for sockets, which the switch would make as root.
    case $PARAM_CONTROLLER in
    *unix:*) echo 'CONTROLLER: expected tcp:, tls:, ptcp: or ptls:, found a socket of the node' >&2; exit 1 ;;
    esac
    # It waits for programs of this machine too, such as ovs-ofctl, at a socket that only root may use.
    set -- "$@" --controller punix:openflow --controller "$PARAM_CONTROLLER" --fail "$PARAM_FAIL" --patience "$PARAM_PATIENCE" \
        --datapath "$PARAM_DATAPATH" --tables "$PARAM_TABLES" --name "$WEIR_GRAPH/$WEIR_FUNCTION" --status controllers
    for port in $WEIR_PORTS; do
        [ "$port" = "$PARAM_CONTROL" ] || set -- "$@" --port "$port"
    done
    [ -n "$PARAM_CONTROL" ] || set -- "$@" --control-netns "$WEIR_NODE_NETNS"
    if [ -n "$PARAM_CERTIFICATE$PARAM_KEY$PARAM_AUTHORITY" ]; then
        set -- "$@" --certificate "$PARAM_CERTIFICATE" --key "$PARAM_KEY" --authority "$PARAM_AUTHORITY"
    fi
    exec "$WEIR_PROGRAM" openflow-switch "$@"
}
