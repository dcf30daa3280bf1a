in :: MemSource($TRACE, BURST 32, SECONDS $SECONDS);
out :: Discard;
c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
rt :: StaticIPLookup(10.255.0.1/32 4, 10.1.2.0/24 0, 198.51.100.0/24 1, 203.0.113.0/24 2, 10.1.0.0/16 3,
  192.168.0.0/16 0, 172.16.0.0/12 1, 10.0.0.0/8 2, 0.0.0.0/0 3);
in -> c; c [0] -> out; c [1] -> out; c [3] -> Discard;
c [2] -> Paint(9) -> Strip(14) -> CheckIPHeader(INTERFACES 10.254.0.1/24 10.254.1.1/24 10.254.2.1/24 10.254.3.1/24) -> rt;
rt [4] -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> out;
rt [0] -> DropBroadcasts -> paint0 :: PaintTee(1) -> options0 :: IPGWOptions(10.254.0.1)
  -> FixIPSrc(10.254.0.1) -> ttl0 :: DecIPTTL -> frag0 :: IPFragmenter(1500) -> EtherEncap(0x0800, 02:00:00:00:01:00, 02:00:00:00:02:00) -> out;
paint0 [1] -> ICMPError(10.254.0.1, redirect, host) -> rt;
options0 [1] -> ICMPError(10.254.0.1, parameterproblem) -> rt;
ttl0 [1] -> ICMPError(10.254.0.1, timeexceeded) -> rt;
frag0 [1] -> ICMPError(10.254.0.1, unreachable, needfrag) -> rt;
rt [1] -> DropBroadcasts -> paint1 :: PaintTee(2) -> options1 :: IPGWOptions(10.254.1.1)
  -> FixIPSrc(10.254.1.1) -> ttl1 :: DecIPTTL -> frag1 :: IPFragmenter(1500) -> EtherEncap(0x0800, 02:00:00:00:01:01, 02:00:00:00:02:01) -> out;
paint1 [1] -> ICMPError(10.254.1.1, redirect, host) -> rt;
options1 [1] -> ICMPError(10.254.1.1, parameterproblem) -> rt;
ttl1 [1] -> ICMPError(10.254.1.1, timeexceeded) -> rt;
frag1 [1] -> ICMPError(10.254.1.1, unreachable, needfrag) -> rt;
rt [2] -> DropBroadcasts -> paint2 :: PaintTee(3) -> options2 :: IPGWOptions(10.254.2.1)
  -> FixIPSrc(10.254.2.1) -> ttl2 :: DecIPTTL -> frag2 :: IPFragmenter(1500) -> EtherEncap(0x0800, 02:00:00:00:01:02, 02:00:00:00:02:02) -> out;
paint2 [1] -> ICMPError(10.254.2.1, redirect, host) -> rt;
options2 [1] -> ICMPError(10.254.2.1, parameterproblem) -> rt;
ttl2 [1] -> ICMPError(10.254.2.1, timeexceeded) -> rt;
frag2 [1] -> ICMPError(10.254.2.1, unreachable, needfrag) -> rt;
rt [3] -> DropBroadcasts -> paint3 :: PaintTee(4) -> options3 :: IPGWOptions(10.254.3.1)
  -> FixIPSrc(10.254.3.1) -> ttl3 :: DecIPTTL -> frag3 :: IPFragmenter(1500) -> EtherEncap(0x0800, 02:00:00:00:01:03, 02:00:00:00:02:03) -> out;
paint3 [1] -> ICMPError(10.254.3.1, redirect, host) -> rt;
options3 [1] -> ICMPError(10.254.3.1, parameterproblem) -> rt;
ttl3 [1] -> ICMPError(10.254.3.1, timeexceeded) -> rt;
frag3 [1] -> ICMPError(10.254.3.1, unreachable, needfrag) -> rt;
DriverManager(pause, print "out $(out.count) of $(in.count)");
