// Staff may not talk to 203.0.113.0/24, so nothing is to come back from there. But guests may send with an address of
// the staff, and the firewall takes what comes back for an answer.
fw :: IPRewriter(keep 0 1, drop, keep 0 1);
FromNetfront(staff) -> CheckIPHeader -> IPFilter(deny dst net 203.0.113.0/24, allow udp and ip hl 5) -> fw;
FromNetfront(guests) -> CheckIPHeader
- -> IPFilter(allow udp and ip hl 5)
+ -> IPFilter(allow udp and ip hl 5 and src net 10.2.0.0/16)
-> [2] fw;
fw [0] -> ToNetfront(wan);
FromNetfront(wan) -> CheckIPHeader -> IPFilter(allow udp and ip hl 5) -> [1] fw;
fw [1] -> inside :: IPClassifier(dst net 10.1.0.0/16, dst net 10.2.0.0/16, -);
inside [0] -> ToNetfront(staff);
inside [1] -> ToNetfront(guests);
inside [2] -> Discard;

never wan staff src net 203.0.113.0/24
