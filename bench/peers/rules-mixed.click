in :: MemSource($TRACE, BURST 32, SECONDS $SECONDS);
out :: Discard;
f :: IPFilter(@RULES@);
in -> CheckIPHeader(OFFSET 14) -> f;
f [0] -> out;
f [1] -> out;
f [2] -> out;
f [3] -> out;
DriverManager(pause, print "out $(out.count) of $(in.count)");
