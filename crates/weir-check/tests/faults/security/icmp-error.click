// client: Source, Packet
// Only packets that have expired are answered, with somebody else's address.
FromNetfront() -> CheckIPHeader -> IPFilter(allow udp and ip hl 5) -> ttl :: DecIPTTL
    -> IPRewriter(pattern - - 172.16.15.133 - 0 0) -> out :: ToNetfront();
- ttl [1] -> ICMPError(8.8.8.8, timeexceeded) -> out;
+ ttl [1] -> ICMPError(172.100.10.1, timeexceeded) -> out;
