// client: Source, Packet
// A port marks where the transport header is, so that the outer header goes without being looked at.
FromNetfront()
+ -> CheckIPHeader
-> StripIPHeader -> Strip(8) -> CheckIPHeader
+ -> IPFilter(allow src host 172.100.10.1)
-> ToNetfront();
