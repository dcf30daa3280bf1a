// Packets that have expired are answered from an address that is not the router's.
FromNetfront(lan) -> CheckIPHeader -> IPFilter(allow ip hl 5) -> ttl :: DecIPTTL -> ToNetfront(wan);
- ttl [1] -> ICMPError(10.0.0.99, timeexceeded) -> ToNetfront(lan);
+ ttl [1] -> ICMPError(10.0.0.1, timeexceeded) -> ToNetfront(lan);

only lan lan src host 10.0.0.1
