in :: MemSource($TRACE, BURST 32, SECONDS $SECONDS);
out :: Discard;
in -> CheckIPHeader(OFFSET 14) -> IPFilter(@RULES@) -> out;
DriverManager(pause, print "out $(out.count) of $(in.count)");
