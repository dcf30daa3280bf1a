in :: MemSource($TRACE, BURST 32, SECONDS $SECONDS);
out :: Discard;
in -> CheckIPHeader(OFFSET 14) -> FlowIPManagerHMP(CAPACITY 65536) -> FlowIPNAT(SIP 192.0.2.1) -> out;
DriverManager(pause, print "out $(out.count) of $(in.count)");
