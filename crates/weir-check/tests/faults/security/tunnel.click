// client: Source, Packet
// The inner packets of a tunnel claim any source.
FromNetfront() -> CheckIPHeader -> IPFilter(allow ip proto 4 and not ip frag) -> StripIPHeader -> CheckIPHeader
+ -> IPFilter(allow src host 172.100.10.1)
-> ToNetfront();
