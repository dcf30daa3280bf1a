// What the NAT does not translate leaves with the inner address.
FromNetfront(lan) -> CheckIPHeader -> kind :: IPClassifier(udp, icmp, -);
kind [0] -> nat :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1) -> wan :: ToNetfront(wan);
nat [1] -> lan :: ToNetfront(lan);
- kind [1] -> wan;
+ kind [1] -> IPFilter(allow icmp type echo) -> ping :: ICMPPingRewriter(pattern 192.0.2.1 1024-65535 - - 0 1) -> wan;
+ ping [1] -> lan;
kind [2] -> Discard;

only lan wan src host 192.0.2.1
