// The filter in front of a NAT lets fewer ports in than the NAT gives away.
nat :: IPRewriter(pattern 192.0.2.1 50000-60000 - - 0 1, drop);
FromNetfront(lan) -> CheckIPHeader -> IPFilter(allow udp and ip hl 5) -> nat -> ToNetfront(wan);
FromNetfront(wan) -> CheckIPHeader
- -> IPFilter(allow udp dst port 1024-49151)
+ -> IPFilter(allow udp dst port 49152-65535)
-> [1] nat [1] -> ToNetfront(lan);

return lan wan udp dst port 53
