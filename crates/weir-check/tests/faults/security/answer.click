// third-party: Destination, Handshake
// The server's answers, and only they, go to somebody else.
proxy :: IPRewriter(pattern 172.100.10.1 1024-65535 172.16.15.133 80 0 1, drop);
FromNetfront() -> CheckIPHeader -> IPFilter(allow tcp and ip hl 5) -> side :: IPClassifier(src host 172.16.15.133, -);
side [1] -> proxy;
side [0] -> [1] proxy;
proxy [0] -> out :: ToNetfront();
- proxy [1] -> StoreIPAddress(198.51.100.66, dst) -> out;
+ proxy [1] -> out;
