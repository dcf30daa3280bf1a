in :: MemSource($TRACE, BURST 32, SECONDS $SECONDS);
out :: Discard;
rw :: UDPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, MAPPING_CAPACITY 4000000);
in -> CheckIPHeader(OFFSET 14) -> rw; rw [0] -> out; rw [1] -> out;
DriverManager(pause, print "out $(out.count) of $(in.count)");
