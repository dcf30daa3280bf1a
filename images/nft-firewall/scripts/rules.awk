# Checks the rules of the variable NAME of the environment, and prints them as nftables rules with a counter before the verdict.
#
# The text comes from users. Only the matches below pass, and each value is checked: no other word can get into the ruleset, so
# there are no includes, no other tables or chains, no names to resolve.

BEGIN {
    text = ENVIRON["PARAM_" NAME]
    if (length(text) > 100000) refuse("has more than 100000 characters")
    split("echo-reply destination-unreachable redirect echo-request time-exceeded parameter-problem timestamp-request timestamp-reply router-advertisement router-solicitation source-quench info-request info-reply address-mask-request address-mask-reply", names, " ")
    for (i in names) icmp["icmp", names[i]] = 1
    split("destination-unreachable packet-too-big time-exceeded parameter-problem echo-request echo-reply mld-listener-query mld-listener-report mld2-listener-report nd-router-solicit nd-router-advert nd-neighbor-solicit nd-neighbor-advert nd-redirect", names, " ")
    for (i in names) icmp["icmpv6", names[i]] = 1
    n = split(text, rules, /[;\n]/)
    for (r = 1; r <= n; r++) {
        rule = rules[r]
        gsub(/[ \t\r]+/, " ", rule); sub(/^ /, "", rule); sub(/ $/, "", rule)
        if (rule == "") continue
        if (++count > 1000) refuse("has more than 1000 rules")
        translate(rule)
    }
    for (r = 1; r <= count; r++) print out[r]
}

function translate(rule,    token, i, done) {
    gsub(/[{},]/, " & ", rule); gsub(/!=/, " != ", rule); sub(/^ +/, "", rule)
    tokens = split(rule, words, / +/)
    if (words[tokens] == "") tokens--
    at = 1; out[count] = ""
    while (at <= tokens) {
        token = next_word()
        if (token == "accept" || token == "drop") {
            if (at <= tokens) refuse("nothing may stand after " token ", found " shown(words[at]))
            out[count] = out[count] "counter " token
            return
        } else if (token == "ip" || token == "ip6") {
            field(token, "saddr daddr"); values(token == "ip" ? "an IPv4 address, prefix or range" : "an IPv6 address, prefix or range", token)
        } else if (token == "tcp" || token == "udp") {
            field(token, "sport dport"); values("a port or a range", "port")
        } else if (token == "icmp" || token == "icmpv6") {
            field(token, "type"); values("a type such as echo-request, or its number", token)
        } else if (token == "meta") {
            field(token, "l4proto"); values("tcp, udp, icmp, icmpv6, sctp, esp, ah, gre or a number", "protocol")
        } else if (token == "limit") {
            limit()
        } else refuse("expected ip, ip6, tcp, udp, icmp, icmpv6, meta, limit, accept or drop, found " shown(token))
    }
    refuse("ends without accept or drop")
}

function next_word() { return at <= tokens ? words[at++] : "" }
function add(word) { out[count] = out[count] word " " }

function field(first, allowed,    word) {
    word = next_word()
    if (word == "" || index(" " allowed " ", " " word " ") == 0) refuse("expected " instead(allowed) " after " first ", found " shown(word))
    add(first); add(word)
}

# One value, or several in braces.
function values(what, kind,    word, some) {
    word = next_word()
    if (word == "!=") { add(word); word = next_word() }
    if (word != "{") { value(word, what, kind); return }
    add("{")
    for (;;) {
        value(next_word(), what, kind)
        word = next_word()
        if (word == "}") { add(word); return }
        if (word != ",") refuse("expected a comma or } after a value, found " shown(word))
        add(word)
    }
}

function value(word, what, kind) {
    if (!fits(word, kind)) refuse("expected " what ", found " shown(word))
    add(word)
}

function fits(word, kind,    ends, n) {
    n = split(word, ends, "-")
    if (kind == "port") return n == 1 ? number(word, 65535) : n == 2 && number(ends[1], 65535) && number(ends[2], 65535) && ends[1] + 0 <= ends[2] + 0
    if (kind == "ip") return n == 1 ? prefix(word, 32) : n == 2 && ipv4(ends[1]) && ipv4(ends[2]) && value_of(ends[1]) <= value_of(ends[2])
    if (kind == "ip6") return n == 1 ? prefix(word, 128) : n == 2 && ipv6(ends[1]) && ipv6(ends[2])
    if (kind == "protocol") return number(word, 255) || word ~ /^(tcp|udp|icmp|icmpv6|sctp|esp|ah|gre)$/
    return number(word, 255) || (kind, word) in icmp
}

function limit(    word) {
    if (next_word() != "rate") refuse("expected rate after limit")
    add("limit rate"); word = next_word()
    if (word == "over") { add(word); word = next_word() }
    if (word !~ /^[1-9][0-9]?[0-9]?[0-9]?[0-9]?[0-9]?\/(second|minute|hour|day)$/) refuse("expected a rate such as 10/second, found " shown(word))
    add(word)
    if (words[at] == "burst" && at < tokens) {
        at++; word = next_word()
        if (!number(word, 1000000) || next_word() != "packets") refuse("expected a burst such as: burst 5 packets")
        add("burst " word " packets")
    }
}

function number(word, max) { return word ~ /^(0|[1-9][0-9]*)$/ && length(word) < 10 && word + 0 <= max }

function prefix(word, bits,    parts, n) {
    n = split(word, parts, "/")
    return (n == 1 || n == 2 && number(parts[2], bits)) && (bits == 32 ? ipv4(parts[1]) : ipv6(parts[1]))
}

function ipv4(word,    bytes, i) {
    if (split(word, bytes, ".") != 4) return 0
    for (i = 1; i <= 4; i++) if (!number(bytes[i], 255)) return 0
    return 1
}

function value_of(address,    bytes) {
    split(address, bytes, ".")
    return ((bytes[1] * 256 + bytes[2]) * 256 + bytes[3]) * 256 + bytes[4]
}

# RFC 4291, section 2.2, without the form that ends in an IPv4 address.
function ipv6(word,    halves, groups, i, n, m, total) {
    if (word !~ /^[0-9a-fA-F:]+$/ || word !~ /:/) return 0
    n = split(word, halves, "::")
    if (n > 2) return 0
    for (i = 1; i <= n; i++) {
        if (halves[i] == "") continue
        m = split(halves[i], groups, ":")
        total += m
        for (; m > 0; m--) if (groups[m] == "" || length(groups[m]) > 4) return 0
    }
    return n == 1 ? total == 8 : total < 8
}

function instead(list) { gsub(/ /, " or ", list); return list }

function shown(word) {
    gsub(/[^ -~]/, "?", word)
    return word == "" ? "the end of the rule" : "\"" substr(word, 1, 60) "\""
}

function refuse(text) {
    if (count > 0) text = "rule " count " (" shown(rules[r]) "): " text
    print NAME ": " text > "/dev/stderr"
    exit 1
}
