// Two stateful firewalls in a row. Each lets in what answers a packet that it let out, so who can send packets out by both
// opens both, one after the other.
first :: IPRewriter(keep 0 1, drop);
second :: IPRewriter(keep 0 1, drop);
FromNetfront(staff) -> CheckIPHeader -> IPFilter(allow udp and ip hl 5) -> first;
FromNetfront(guests) -> CheckIPHeader
- -> IPFilter(allow udp and ip hl 5)
+ -> IPFilter(allow tcp and ip hl 5)
-> second;
first [0] -> Discard;
second [0] -> Discard;
FromNetfront(wan) -> CheckIPHeader -> IPFilter(allow udp and ip hl 5) -> [1] first [1] -> [1] second [1] -> ToNetfront(server);

never wan server udp
