// client: Source, Packet
// A proxy for UDP sends the answers of its server on with somebody else's address.
proxy :: IPRewriter(pattern 172.100.10.1 1024-65535 172.16.15.133 53 0 1, drop);
FromNetfront() -> CheckIPHeader -> IPFilter(allow udp and ip hl 5) -> side :: IPClassifier(src host 172.16.15.133, -);
side [1] -> proxy;
side [0] -> [1] proxy;
proxy [0] -> out :: ToNetfront();
- proxy [1] -> StoreIPAddress(8.8.8.8, src) -> out;
+ proxy [1] -> out;
