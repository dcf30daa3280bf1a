// A tunnel gives back what went in, but for packets whose senders care for congestion.
FromNetfront(lan) -> CheckIPHeader
- -> MarkIPCE
-> IPEncap(4, 192.0.2.1, 192.0.2.2) -> DecIPTTL -> CheckIPHeader -> StripIPHeader -> CheckIPHeader -> ToNetfront(wan);

invariant lan wan ip tos
+ invariant lan wan ip len, ip id, ip ttl, proto, src, dst, payload
