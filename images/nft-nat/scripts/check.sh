# Checks of parameters. The values come from users: nothing here evaluates them, and a value that is not wholly right is refused
# before it can get into a command line or a file. Each check prints what is wrong and what would be right, and ends the script.
set -euf
LC_ALL=C
export LC_ALL

# refuse NAME VALUE WHAT: VALUE is shown without anything that a terminal or a log would take for more than text.
refuse() {
    printf '%s: found "%s", expected %s\n' "$1" "$(printf %.100s "$2" | tr -c ' -~' '?')" "$3" >&2
    exit 1
}

# number NAME VALUE LEAST MOST
number() {
    case $2 in
    '' | 0?* | *[!0-9]* | ??????????*) ;;
    *) if [ "$2" -ge "$3" ] && [ "$2" -le "$4" ]; then return; fi ;;
    esac
    refuse "$1" "$2" "a number from $3 to $4"
}

# address NAME VALUE: an IPv4 address.
address() {
    is_address "$2" || refuse "$1" "$2" "an IPv4 address such as 10.0.0.1"
}

# network NAME VALUE: an IPv4 prefix.
network() {
    case ${2#*/} in
    [0-9] | [12][0-9] | 3[0-2]) if [ "$2" != "${2%/*}" ] && is_address "${2%%/*}"; then return; fi ;;
    esac
    refuse "$1" "$2" "an IPv4 prefix such as 10.0.0.0/24"
}

# member NAME ADDRESS PREFIX: an address of a host in the network; both have been checked.
member() {
    bits=${3#*/}
    mask=$(((0xffffffff << (32 - bits)) & 0xffffffff))
    value "${3%/*}"
    net=$((value & mask))
    value "$2"
    host=$((value & ~mask))
    if [ "$((value & mask))" -ne "$net" ]; then refuse "$1" "$2" "an address of the network $3"; fi
    if [ "$bits" -lt 31 ] && { [ "$host" -eq 0 ] || [ "$host" -eq $((~mask & 0xffffffff)) ]; }; then
        refuse "$1" "$2" "the address of a host, not the network's or the broadcast address of $3"
    fi
}

# value ADDRESS: sets `value` to the address as a number.
value() {
    IFS=. read -r a b c d <<EOF
$1
EOF
    value=$((((a << 8 | b) << 8 | c) << 8 | d))
}

is_address() {
    case $1 in
    *[!0-9.]* | .* | *. | *..* | *.*.*.*.*) return 1 ;;
    *.*.*.*) ;;
    *) return 1 ;;
    esac
    IFS=. read -r a b c d <<EOF
$1
EOF
    for byte in "$a" "$b" "$c" "$d"; do
        case $byte in
        0?* | ????*) return 1 ;;
        esac
        [ "$byte" -le 255 ] || return 1
    done
}
