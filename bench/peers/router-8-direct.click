in :: MemSource($TRACE, BURST 32, SECONDS $SECONDS);
out :: Discard;
rt :: DirectIPLookup(10.1.2.0/24 0, 198.51.100.0/24 1, 203.0.113.0/24 2, 10.1.0.0/16 3,
  192.168.0.0/16 0, 172.16.0.0/12 1, 10.0.0.0/8 2, 0.0.0.0/0 3);
in -> Strip(14) -> CheckIPHeader -> rt;
rt [0] -> DecIPTTL -> EtherEncap(0x0800, 02:00:00:00:01:00, 02:00:00:00:02:00) -> out;
rt [1] -> DecIPTTL -> EtherEncap(0x0800, 02:00:00:00:01:01, 02:00:00:00:02:01) -> out;
rt [2] -> DecIPTTL -> EtherEncap(0x0800, 02:00:00:00:01:02, 02:00:00:00:02:02) -> out;
rt [3] -> DecIPTTL -> EtherEncap(0x0800, 02:00:00:00:01:03, 02:00:00:00:02:03) -> out;
DriverManager(pause, print "out $(out.count) of $(in.count)");
